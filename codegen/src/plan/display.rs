//! The plan as a table that a person can check by hand.

use std::fmt;

use super::Plan;

/// One row a line, columns aligned.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (first, second) = (width(0), width(1));
        for [what, value, why] in &rows {
            writeln!(f, "{what:<first$}  {value:<second$}  {why}")?;
        }
        Ok(())
    }
}
