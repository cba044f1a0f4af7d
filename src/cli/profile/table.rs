//! Tables of CSV as ncu prints them: lines of its own may stand before the heading.

/// A table: its heading, and its rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Csv {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Reads the first table whose heading begins with one of these words; a row that is shorter than the heading ends it.
///
/// # Errors
/// In words: there is no such table.
pub(super) fn read(text: &str, first: &[&str]) -> Result<Csv, String> {
    let mut records = text.lines().map(fields);
    let head = records.find(|fields| fields.len() > 1 && first.contains(&fields[0].as_str()));
    let head = head.ok_or_else(|| format!("no line of it begins with \"{}\"", first.join("\" or \"")))?;
    let rows = records.take_while(|fields| fields.len() == head.len()).collect();
    Ok(Csv { head, rows })
}

impl Csv {
    /// The column of the first of these names that there is.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.head.iter().position(|head| head == name))
    }
}

/// The fields of a line: a quote within quotes is written twice (RFC 4180).
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (vec![], String::new(), false);
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

/// A number as ncu prints it: `1,234.5`.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_commas_within_them_are_of_the_field() {
        assert_eq!(fields(r#""a","b, ""c""",7,"#), ["a", r#"b, "c""#, "7", ""]);
        assert_eq!((number("1,234.5"), number("n/a"), number("")), (Some(1234.5), None, None));
    }
}
