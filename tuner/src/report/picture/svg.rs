//! Lines of SVG: rectangles and words, coloured by the page's style through their classes.

use std::fmt::Write as _;

/// Pixels of the page's pictures from left to right.
pub(in crate::report) const WIDTH: f64 = 1080.0;
/// Pixels of a line of words.
const LINE: f64 = 18.0;

/// A picture of fixed size, whose coordinates are pixels where there is room for them.
#[derive(Debug)]
pub(in crate::report) struct Svg {
    width: f64,
    pub(super) height: f64,
    body: String,
}

impl Svg {
    pub(in crate::report) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A rectangle with what a pointer over it says.
    pub(in crate::report) fn rect(&mut self, [x, y, width, height]: [f64; 4], class: &str, title: &str) {
        let title = escape(title);
        // Writing to a string cannot fail.
        let _ = write!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}"><title>{title}</title></rect>"#,
        );
    }

    /// Words at a point; `class` says how they are aligned.
    pub(in crate::report) fn text(&mut self, [x, y]: [f64; 2], class: &str, words: &str) {
        let _ = write!(self.body, r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{}</text>"#, escape(words));
    }

    pub(in crate::report) fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        let _ = write!(self.body, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#);
    }

    /// An outline with what a pointer over it says.
    pub(in crate::report) fn path(&mut self, d: &str, class: &str, title: &str) {
        let _ = write!(self.body, r#"<path d="{d}" class="{class}"><title>{}</title></path>"#, escape(title));
    }

    /// A file of its own, with its style in it and these lines above the picture.
    pub(in crate::report) fn file(mut self, lines: &[String], style: &str) -> String {
        let height = LINE * lines.len() as f64;
        for (at, line) in lines.iter().enumerate() {
            self.text([0.0, LINE * (at as f64 + 0.8) - height], if at == 0 { "title" } else { "" }, line);
        }
        let Self { width, height: below, body } = self;
        let (label, height) = (escape(&lines.join("; ")), height + below);
        let head = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {:.0} {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="{label}">"#,
            below - height
        );
        format!("{head}<title>{label}</title><style>{style}</style>{body}</svg>\n")
    }

    /// The whole, with what it shows in words for those who do not see it.
    pub(in crate::report) fn finish(self, label: &str) -> String {
        let Self { width, height, body } = self;
        format!(
            r#"<svg viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="{}">{body}</svg>"#,
            escape(label)
        )
    }
}

/// Words as they stand in a document, in text and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
