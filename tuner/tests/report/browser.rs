//! The page in a headless chromium: it loads, asks for nothing, sorts, filters, draws and changes its theme.
//!
//! `BSR_SCREENSHOTS=DIR` keeps pictures of it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bsr_tuner::report::{ReportData, render, top};
use bsr_tuner::{TraceOf, Traced, TracedTimes};
use serde_json::json;

use crate::chromium::{PATIENCE, Page};
use crate::sample::{large, recorded, sample};

/// One page in a browser of its own.
struct Shown {
    page: Page,
    _folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Browsers come one after the other: each draws with all the cores that there are.
static TURN: Mutex<()> = Mutex::new(());

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        let names = ["chromium", "chromium-browser", "google-chrome"];
        std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|file| file.is_file())
    };
    let found = named.or_else(on_path);
    if found.is_none() {
        eprintln!("SKIPPED: chromium not found; set CHROMIUM, or have it on the PATH");
        assert!(
            std::env::var_os("BSR_REQUIRE_CHROMIUM").is_none(),
            "BSR_REQUIRE_CHROMIUM is set, and there is no chromium"
        );
    }
    found
}

impl Shown {
    fn new(data: &ReportData) -> Option<Self> {
        Self::with(data, &["--enable-unsafe-swiftshader", "--use-angle=swiftshader"])
    }

    /// In a browser with these options.
    fn with(data: &ReportData, options: &[&str]) -> Option<Self> {
        let path = chromium()?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        std::fs::write(&file, render(data).unwrap()).unwrap();
        let page = Page::open(&path, &folder.path().join("profile"), options);
        page.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        let shown = Self { page, _folder: folder, _turn: turn };
        // Right after the address is given there is no document yet.
        shown.until("document.documentElement?.dataset.ready > 0");
        Some(shown)
    }

    /// What an expression is, as JSON.
    fn value(&self, expression: &str) -> serde_json::Value {
        self.page.evaluate(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn until(&self, condition: &str) {
        let end = Instant::now() + PATIENCE;
        // One document may give way to another while it is asked.
        while self.page.evaluate(&format!("Boolean({condition})")) != Ok(json!(true)) {
            assert!(Instant::now() < end, "never {condition}; {:?}", self.page.complaints());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Scrolls to every plot, which draws it.
    fn see_all(&self) {
        for id in ["heat", "lines", "scatter"] {
            self.value(&format!("(document.getElementById('{id}').scrollIntoView(), 0)"));
            self.until(&format!("document.querySelector('#{id}.js-plotly-plot .main-svg')"));
        }
        self.value("(scrollTo(0, 0), 0)");
    }

    /// The text of a column of the table, as far as it is on the page.
    fn column(&self, name: &str) -> Vec<String> {
        let place = format!("[...table.tHead.rows[0].cells].findIndex(cell => cell.innerText === '{name}')");
        let cells = format!(
            "[...table.tBodies[0].querySelectorAll('tr:not(.baseline)')].map(row => row.cells[{place}].innerText)"
        );
        let found = self.value(&format!("(table => {cells})(document.getElementById('table'))"));
        serde_json::from_value(found).unwrap()
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        self.column(name).iter().filter_map(|text| text.parse().ok()).collect()
    }

    fn choose(&self, select: &str, value: &str) {
        self.value(&format!(
            "(select => {{ select.value = '{value}'; select.dispatchEvent(new Event('change')); return 0; }})(document.getElementById('{select}'))"
        ));
    }

    fn screen(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.page.call("Emulation.setDeviceMetricsOverride", size);
        self.until(&format!("innerWidth === {width}"));
    }

    /// Waits until the page does not scroll sideways: plots take a screen's width some time after it has changed.
    fn fits(&self) {
        self.until("document.documentElement.scrollWidth === document.documentElement.clientWidth");
    }

    /// The whole page as it looks, if pictures are wanted.
    fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("BSR_SCREENSHOTS") else { return };
        let size = self.value("[document.documentElement.clientWidth, document.documentElement.scrollHeight]");
        let (width, height) = (size[0].as_u64().unwrap() as u32, size[1].as_u64().unwrap() as u32);
        self.value("(scrollTo(0, 0), 0)");
        self.screen(width, height);
        let png = self.page.picture();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), png).unwrap();
        self.screen(width, 900);
    }

    fn is_well(&self) {
        assert_eq!(self.page.complaints(), Vec::<String>::new());
        for url in self.page.requests() {
            let local = ["file:", "data:", "blob:"].iter().any(|scheme| url.starts_with(scheme));
            assert!(local, "the page asks for {url}");
        }
        let loaded = self.value("performance.getEntriesByType('resource').map(entry => entry.name)");
        let loaded: Vec<String> = serde_json::from_value(loaded).unwrap();
        assert!(loaded.iter().all(|url| url.starts_with("data:") || url.starts_with("blob:")), "{loaded:?}");
    }
}

#[test]
fn a_browser_shows_sorts_filters_and_draws() {
    let Some(shown) = Shown::new(&sample()) else { return };
    let title = shown.value("document.title");
    assert!(title.as_str().unwrap().contains("<img"), "{title}");
    assert_eq!(shown.value("document.querySelectorAll('img').length"), 0);
    shown.see_all();
    assert_eq!(shown.value("document.querySelectorAll('.plot .none').length"), 0);

    // Sorted by the place at first: the best ratio on top.
    let ratios = shown.numbers("ratio");
    assert!(ratios.len() > 40 && ratios.windows(2).all(|pair| pair[0] >= pair[1]), "{ratios:?}");
    let head = |name: &str| {
        let at = shown.value(&format!(
            "[...document.querySelectorAll('#table thead th')].findIndex(cell => cell.innerText === '{name}') + 1"
        ));
        format!("#table thead th:nth-child({at}) button")
    };
    shown.page.click(&head("us"));
    let times = shown.numbers("us");
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    shown.page.click(&head("us"));
    let times = shown.numbers("us");
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");
    assert_eq!(shown.value("document.querySelectorAll('#table th[aria-sort=descending]').length"), 1);
    // Without a mouse.
    shown.page.press_enter(&head("ratio"));
    let ratios = shown.numbers("ratio");
    assert!(ratios.windows(2).all(|pair| pair[0] >= pair[1]) && ratios.len() > 40, "{ratios:?}");

    // Filters: words, conditions, verdicts.
    let everything = shown.value("document.getElementById('count').innerText").as_str().unwrap().to_owned();
    shown.page.click("#filter");
    shown.page.type_text("bn=256 ratio>0.5");
    assert!(shown.column("bn").iter().all(|bn| bn == "256") && !shown.column("bn").is_empty());
    assert!(shown.numbers("ratio").iter().all(|ratio| *ratio > 0.5));
    assert_ne!(shown.value("document.getElementById('count').innerText"), everything.as_str());
    shown.value("(filter => { filter.value = ''; filter.dispatchEvent(new Event('input')); return 0; })(document.getElementById('filter'))");
    shown.choose("verdict", "wrong");
    assert!(shown.column("verdict").iter().all(|verdict| verdict == "wrong") && !shown.column("verdict").is_empty());
    shown.choose("verdict", "");
    assert_eq!(shown.value("document.getElementById('count').innerText"), everything.as_str());
    let first = shown.column("#");
    shown.page.click("#next");
    assert_ne!(shown.column("#"), first);

    // A click on a row shows what its kernel teaches, and so does a key.
    let taught = "[...document.querySelectorAll('[data-product]:not([hidden]) .lesson:not([hidden])')].map(e => e.dataset.lesson)";
    shown.page.click("#back");
    let before = shown.value(taught);
    assert_eq!(before.as_array().unwrap().len(), 1);
    shown.page.click("#table tbody tr.teaches:nth-of-type(3) td");
    let after = shown.value(taught);
    assert!(after.as_array().unwrap().len() == 1 && after != before, "{before} and {after}");
    assert_eq!(shown.value("document.querySelectorAll('#table tr.shown').length"), 1);
    shown.page.press_enter("#table tbody tr.teaches");
    assert_ne!(shown.value(taught), after);

    // The heat map follows its axes, and a click on a cell filters the table.
    let z = "document.getElementById('heat').data[0].z";
    shown.value("(document.getElementById('heat').scrollIntoView(), 0)");
    let before = shown.value(z);
    shown.choose("heat-y", "2");
    let after = shown.value(z);
    assert_ne!(before, after);
    let best = |z: &serde_json::Value| {
        let cells = z.as_array().unwrap().iter().flat_map(|line| line.as_array().unwrap());
        cells.filter_map(serde_json::Value::as_f64).fold(0.0, f64::max)
    };
    assert_eq!(best(&before), best(&after), "the best of all is in every map");

    shown.is_well();
}

#[test]
fn a_browser_changes_product_and_theme_and_fits_wide_and_narrow_screens() {
    let Some(shown) = Shown::new(&sample()) else { return };
    shown.see_all();
    let background = "getComputedStyle(document.body).backgroundColor";
    let words = "document.getElementById('heat').layout.font.color";
    let (light, ink) = (shown.value(background), shown.value(words));
    shown.see_all();
    shown.picture("light");
    shown.page.click("#theme");
    assert_ne!(shown.value(background), light);
    // The plots follow, each when it is seen.
    shown.value("(document.getElementById('heat').scrollIntoView(), 0)");
    shown.until(&format!("{words} !== {ink}"));
    shown.see_all();
    shown.picture("dark");
    shown.choose("product", "4");
    let banner =
        shown.value("[...document.querySelectorAll('[data-product]:not([hidden]) .banner')].map(e => e.innerText)");
    assert!(banner[0].as_str().unwrap().starts_with("MODEL"), "{banner}");
    assert_eq!(shown.value("document.querySelectorAll('[data-product]:not([hidden])').length"), 3);
    shown.choose("product", "2");
    shown.picture("swap-ab");
    shown.page.click("#theme");
    assert_eq!(shown.value(background), light);

    shown.choose("product", "0");
    uses_a_wide_screen(&shown);
    shown.screen(400, 900);
    shown.fits();
    shown.picture("narrow");
    shown.is_well();
}

fn uses_a_wide_screen(shown: &Shown) {
    shown.screen(1920, 1080);
    shown.see_all();
    let box_of = |selector: &str| {
        let found = shown.value(&format!(
            "(box => [box.left, box.width, box.top])(document.querySelector('{selector}').getBoundingClientRect())"
        ));
        [0, 1, 2].map(|at| found[at].as_f64().unwrap())
    };
    for whole in ["main", "#table", "table.overview", "#lines"] {
        shown.until(&format!("document.querySelector('{whole}').getBoundingClientRect().width > 1700"));
    }
    // Two plots side by side.
    for half in ["#heat", "#scatter"] {
        shown.until(&format!("document.querySelector('{half}').getBoundingClientRect().width > 800"));
    }
    let ([left, width, top], [beside, _, as_high]) = (box_of("#heat"), box_of("#scatter"));
    assert!(left + width < beside && (top - as_high).abs() < 120.0);
    shown.fits();
    shown.picture("wide");
}

#[test]
fn without_webgl_every_plot_is_drawn() {
    let Some(shown) = Shown::with(&sample(), &["--disable-gpu", "--disable-3d-apis"]) else { return };
    assert_eq!(shown.value("Boolean(document.createElement('canvas').getContext('webgl'))"), false);
    shown.see_all();
    assert_eq!(shown.value("document.querySelectorAll('.plot .none').length"), 0);
    // A line for every kernel, in as many colours as there are, and the names of the keys over the axes.
    let drawn = "document.querySelectorAll('#lines .scatterlayer .js-line').length";
    assert!(shown.value(drawn).as_u64().unwrap() > 4);
    let names = shown.value("document.getElementById('lines').innerText");
    assert!(names.as_str().unwrap().contains("bn") && names.as_str().unwrap().contains("ratio"), "{names}");
    shown.page.click("#theme");
    shown.see_all();
    shown.picture("without-webgl");
    shown.is_well();
}

#[test]
fn a_browser_shows_little_as_well_as_much() {
    let mut data = sample();
    // One product of one kernel, one whose kernels all failed, one whose specs nobody can read, and nothing else.
    let workloads: Vec<_> = data.records.iter().map(|record| record.problem.workload.clone()).collect();
    let mut kept = vec![];
    for (number, record) in data.records.drain(..).enumerate() {
        let mut record = record;
        let product = workloads.iter().position(|known| *known == workloads[number]).unwrap();
        let many = kept.iter().filter(|other: &&bsr_tuner::Record| other.problem == record.problem).count();
        match (product == 0, record.verdict) {
            _ if record.baseline || record.device.kind != bsr_tuner::DeviceKind::Gpu => continue,
            (true, _) if many > 0 => continue,
            (true, _) => {}
            (false, bsr_tuner::Verdict::Timed) if record.problem.workload.n == 64 => {
                record.subject.push_str(", key_of_a_later_version = 1");
            }
            (false, bsr_tuner::Verdict::Wrong) => {}
            _ => continue,
        }
        kept.push(record);
    }
    data.records = kept;
    data.rejected.clear();
    let Some(shown) = Shown::new(&data) else { return };
    let products = shown.value("data.problems.length").as_u64().unwrap();
    assert!(products >= 3, "{products}");
    for product in 0..products {
        shown.choose("product", &product.to_string());
        for id in ["heat", "lines", "scatter"] {
            shown.value(&format!("(document.getElementById('{id}').scrollIntoView(), 0)"));
            shown.until(&format!("document.getElementById('{id}').childElementCount > 0"));
            // A sentence in place of a plot leaves no room for the plot.
            let hole =
                format!("document.querySelector('#{id} .none') && document.getElementById('{id}').offsetHeight > 80");
            assert_eq!(shown.value(&format!("Boolean({hole})")), false, "{id} of product {product}");
        }
    }
    shown.picture("little");
    shown.is_well();
}

#[test]
fn a_browser_bears_five_thousand_kernels() {
    let data = large(5000);
    let Some(shown) = Shown::new(&data) else { return };
    let ready = shown.value("Number(document.documentElement.dataset.ready)").as_f64().unwrap();
    let count = shown.value("document.getElementById('count').innerText");
    eprintln!("{count} kernels: ready after {ready} ms");
    shown.page.click("#table thead th:nth-child(2) button");
    shown.is_well();
}

#[test]
fn a_browser_shows_the_timeline_that_the_winner_recorded() {
    let mut data = sample();
    let best = top(&data.records, 1).remove(0);
    let spec = best.attribute.unwrap().replace("#[bsr_kernel(", "").replace(")]", "");
    let mut trace = recorded(&spec);
    let times = Some(TracedTimes { plain_us: 100.0, probed_us: 101.0 });
    TraceOf { times, ..TraceOf::now(best.problem.workload, best.device, None) }.write(&mut trace);
    data.traces.push(Traced::read(&trace).unwrap());
    let Some(shown) = Shown::new(&data) else { return };
    let svg = "document.querySelector('[data-product]:not([hidden]) [aria-label=\"Recorded timeline\"] svg')";
    let size = shown.value(&format!("(box => [box.width, box.height])({svg}.getBoundingClientRect())"));
    assert!(size[0].as_f64().unwrap() > 860.0 && size[1].as_f64().unwrap() > 200.0, "{size}");
    let fill = |class: &str| shown.value(&format!("getComputedStyle({svg}.querySelector('.{class}')).fill"));
    assert_ne!(fill("t-wgmma"), fill("t-full"));
    let heading = shown.value("[...document.querySelectorAll('.lesson:not([hidden]) h4')].map(e => e.innerText)");
    assert!(heading.to_string().contains("Its timeline, measured"), "{heading}");
    shown.picture("timeline-light");
    shown.page.click("#theme");
    shown.picture("timeline-dark");
    shown.is_well();
}
