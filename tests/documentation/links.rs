//! Links lead to files and headings that exist, and the book's summary lists every page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::pages::{Page, all, book, root};

/// The anchors of a page's headings, made as mdBook and GitHub make them.
fn anchors(page: &Page) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in page.events() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    *heading += &text;
                }
            }
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|text| anchor(&text))),
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn links(page: &Page) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
        _ => None,
    };
    page.events().filter_map(target).collect()
}

/// Why a link leads nowhere.
fn broken(page: &Page, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap_or(root()).join(file) };
    let from = page.path.strip_prefix(root()).unwrap_or(&page.path).display();
    if !path.exists() {
        return Some(format!("{from}: `{link}` names no file"));
    }
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    if !fragment.is_empty() && is_page && !anchors(&Page::read(&path)).contains(fragment) {
        return Some(format!("{from}: `{link}` names no heading"));
    }
    None
}

#[test]
fn every_link_leads_somewhere() {
    let broken: Vec<String> =
        all().iter().flat_map(|page| links(page).into_iter().filter_map(|link| broken(page, &link))).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Nothing of this project is on a registry, so no page may point there.
#[test]
fn no_link_leads_to_a_page_of_a_registry_that_does_not_exist() {
    let mut pages = all();
    pages.extend(
        ["bsr-macros", "codegen", "runtime", "simulator", "trial", "tuner"]
            .map(|of| Page::read(root().join(of).join("README.md"))),
    );
    for page in &pages {
        for link in links(page) {
            let names_us =
                ["crates.io/crates/bsr", "docs.rs/bsr", "pypi.org/project/bsr"].iter().any(|at| link.contains(at));
            assert!(!names_us, "{}: {link}", page.path.display());
            assert_eq!(broken(page, &link), None);
        }
    }
}

/// A link out of the book's folder works in the repository, and leads nowhere in the book that mdBook builds.
#[test]
fn the_book_links_to_its_own_pages_and_lists_them_all() {
    let folder = root().join("docs/src");
    let summary = Page::read(folder.join("SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|link| folder.join(link)).collect();
    for page in book().iter().filter(|page| page.path != summary.path) {
        assert!(listed.contains(&page.path), "SUMMARY.md does not list {}", page.path.display());
        for link in links(page).iter().filter(|link| !link.contains("://")) {
            assert!(!Path::new(link).starts_with(".."), "{}: `{link}` leaves the book", page.path.display());
        }
    }
}

#[test]
fn anchors_are_made_of_headings() {
    assert_eq!(anchor("What cannot be planned"), "what-cannot-be-planned");
    assert_eq!(anchor("The JSON of bsr bench --json"), "the-json-of-bsr-bench---json");
}
