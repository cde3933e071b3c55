//! Rows that are made once and kept: most change with time only in how old the object is.

use serde_json::Value;

use super::{Printer, Row, read};
use crate::{age, timestamp};

/// A moment at which every text that tells of time is another one than today.
const FAR_SECONDS: i64 = 1 << 40;

/// A row as it is sent, but for the age in it.
#[derive(Debug, PartialEq, Eq)]
pub struct LastingRow {
    /// The cells before the age, up to where it stands.
    before: Box<str>,
    /// What follows the age; the row has none where nothing does.
    after: Option<Box<str>>,
    created: Option<i64>,
}

impl LastingRow {
    /// `None` where more than the age of the object changes with time: such a row is made anew
    /// each time. What changes is what differs between now and a far day.
    pub fn of(printer: &Printer, object: &Value, now: i64) -> Option<LastingRow> {
        let (row, far) = (printer.row(object, now), printer.row(object, FAR_SECONDS));
        let differs = |at: &usize| row.cells[*at] != far.cells[*at];
        let changing: Vec<usize> = (0..row.cells.len()).filter(differs).collect();
        let created = read::text(object, &["metadata", "creationTimestamp"]);
        let is_age = |at: usize| {
            let age = |now| age::since(Some(created), now);
            row.cells[at] == age(now) && far.cells[at] == age(FAR_SECONDS)
        };
        let age = match changing[..] {
            [] => None,
            [at] if is_age(at) => Some(at),
            _ => return None,
        };
        let mut before = String::from("\"cells\":[");
        let Some(age) = age else {
            write_cells(&row.cells, &mut before);
            write_rest(&row, &mut before);
            return Some(LastingRow { before: before.into(), after: None, created: None });
        };
        write_cells(&row.cells[..age], &mut before);
        before.push_str(if age > 0 { ",\"" } else { "\"" });
        let mut after = String::from(if age + 1 < row.cells.len() { "\"," } else { "\"" });
        write_cells(&row.cells[age + 1..], &mut after);
        write_rest(&row, &mut after);
        let created = timestamp::parse(created);
        Some(LastingRow { before: before.into(), after: Some(after.into()), created })
    }

    /// The members `cells` and `conditions` of a row.
    pub fn write(&self, now: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        if let Some(after) = &self.after {
            let age = self.created.map(|created| age::human(now.saturating_sub(created)));
            out.extend_from_slice(age.unwrap_or_default().as_bytes());
            out.extend_from_slice(after.as_bytes());
        }
    }
}

impl Row {
    /// The same members of a row that does not last.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut text = String::from("\"cells\":[");
        write_cells(&self.cells, &mut text);
        write_rest(self, &mut text);
        out.extend_from_slice(text.as_bytes());
    }
}

fn write_cells(cells: &[Value], out: &mut String) {
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&cell.to_string());
    }
}

fn write_rest(row: &Row, out: &mut String) {
    out.push(']');
    if !row.conditions.is_empty() {
        out.push_str(",\"conditions\":");
        out.push_str(&Value::from(row.conditions.clone()).to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{NOW, ago};
    use super::super::{kinds, printer};
    use super::*;

    fn check(printer: &Printer, object: &Value) -> bool {
        let lasting = LastingRow::of(printer, object, NOW);
        for now in [NOW, NOW + 1, NOW + 4_000, NOW + 90_000_000] {
            let row = printer.row(object, now);
            let mut expected = Vec::new();
            row.write(&mut expected);
            let Some(lasting) = &lasting else { return false };
            let mut text = Vec::new();
            lasting.write(now, &mut text);
            assert_eq!(String::from_utf8(text), String::from_utf8(expected), "{}", printer.kind);
        }
        true
    }

    #[test]
    fn a_row_that_lasts_is_the_row_that_would_be_made() {
        let metadata = json!({"name": "x\"y", "creationTimestamp": ago(7)});
        for printer in kinds::ALL.iter().flat_map(|some| some.iter()) {
            assert!(check(printer, &json!({"metadata": metadata})), "{}", printer.kind);
            check(printer, &json!({}));
            check(printer, &json!({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}}));
        }
        let done = json!({"metadata": metadata, "status": {"phase": "Succeeded"}});
        assert!(check(printer("", "Pod"), &done));
    }

    #[test]
    fn a_row_with_other_times_does_not_last() {
        let job = json!({
            "metadata": {"name": "x", "creationTimestamp": ago(60)},
            "status": {"startTime": ago(50)},
        });
        assert!(!check(printer("batch", "Job"), &job));
    }
}
