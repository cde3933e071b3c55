//! Objects as rows of a table: what `kubectl get` prints.
//!
//! A kind's columns and the cells of an object are a [`Printer`]; the kinds are in [`kinds`]. Ages
//! are counted when a client asks, so a row is made from the object each time and must be cheap:
//! it walks the JSON and copies only what it shows. Nothing here makes the answer itself.
//!
//! Upstream: pkg/printers/internalversion/printers.go, always with the wide columns

mod kinds;
mod lasting;
mod read;

pub use lasting::LastingRow;

use serde_json::Value;

/// A column definition, as in `columnDefinitions` of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub type_: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

/// What a Table says of one object, without the object itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cells: Vec<Value>,
    /// For objects that are done: kubectl may leave them out.
    pub conditions: Vec<Value>,
}

/// How a kind is shown. There are as many cells as columns.
#[derive(Debug)]
pub struct Printer {
    pub group: &'static str,
    pub kind: &'static str,
    pub columns: &'static [Column],
    cells: fn(&Value, i64) -> Vec<Value>,
    conditions: fn(&Value) -> Vec<Value>,
}

impl Printer {
    const fn new(
        group: &'static str,
        kind: &'static str,
        columns: &'static [Column],
        cells: fn(&Value, i64) -> Vec<Value>,
    ) -> Printer {
        Printer { group, kind, columns, cells, conditions: |_| Vec::new() }
    }

    pub fn row(&self, object: &Value, now_unix_seconds: i64) -> Row {
        let cells = (self.cells)(object, now_unix_seconds);
        debug_assert_eq!(cells.len(), self.columns.len(), "{} {}", self.group, self.kind);
        Row { cells, conditions: (self.conditions)(object) }
    }
}

/// For kinds that have no printer of their own.
static DEFAULT: Printer = Printer::new(
    "",
    "",
    &[
        Column::NAME,
        Column { type_: "date", ..Column::text("Created At", "When the object was created.") },
    ],
    |object, _| cells![read::name(object), read::text(object, &["metadata", "creationTimestamp"])],
);

/// The printer of a kind; look it up once for many rows.
pub fn printer(group: &str, kind: &str) -> &'static Printer {
    let of_kind = |one: &&&'static Printer| one.kind == kind && one.group == group;
    kinds::ALL.iter().flat_map(|some| some.iter()).find(|one| of_kind(&one)).unwrap_or(&DEFAULT)
}

/// The columns of a kind.
pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    printer(group, kind).columns
}

/// The cells of an object, in the order of [`columns`].
pub fn row(group: &str, kind: &str, object: &Value, now_unix_seconds: i64) -> Row {
    printer(group, kind).row(object, now_unix_seconds)
}

impl Column {
    const NAME: Column = Column {
        format: "name",
        ..Column::text("Name", "The name of the object in its namespace.")
    };
    const AGE: Column = Column::text("Age", "How long ago the object was created.");
    const CONTAINERS: Column =
        Column::text("Containers", "The names of the containers in the template.").wide();
    const IMAGES: Column =
        Column::text("Images", "The images of the containers in the template.").wide();
    const SELECTOR: Column = Column::text("Selector", "Which pods belong to the object.").wide();

    const fn text(name: &'static str, description: &'static str) -> Column {
        Column { name, type_: "string", format: "", description, priority: 0 }
    }

    const fn integer(name: &'static str, description: &'static str) -> Column {
        Column { type_: "integer", ..Column::text(name, description) }
    }

    const fn boolean(name: &'static str, description: &'static str) -> Column {
        Column { type_: "boolean", ..Column::text(name, description) }
    }

    /// Shown only with `-o wide`.
    const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }
}

/// A row of values of different types.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(serde_json::Value::from($cell)),*] };
}
use cells;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::timestamp;

    /// The time at which the tests look.
    pub const NOW: i64 = 1_714_979_289;

    /// A timestamp that lies so many seconds back.
    pub fn ago(seconds: i64) -> String {
        timestamp::format(NOW - seconds)
    }

    /// Checks the cells of an object, to which a name and an age of five minutes are added.
    pub fn check(group: &str, kind: &str, mut object: Value, expected: Value) {
        let metadata = &mut object["metadata"];
        if metadata.get("name").is_none() {
            metadata["name"] = json!("x");
        }
        if metadata.get("creationTimestamp").is_none() {
            metadata["creationTimestamp"] = json!(ago(300));
        }
        assert_ne!(printer(group, kind).kind, "", "{kind} must have a printer");
        let row = row(group, kind, &object, NOW);
        assert_eq!(Value::Array(row.cells), expected, "{kind}: {object}");
    }

    #[test]
    fn a_kind_without_a_printer_has_a_name_and_a_time() {
        let names: Vec<_> = columns("", "LimitRange").iter().map(|column| column.name).collect();
        assert_eq!(names, ["Name", "Created At"]);
        let object = json!({"metadata": {"name": "x", "creationTimestamp": ago(0)}});
        let row = row("example.com", "Thing", &object, NOW);
        assert_eq!(row.cells, [json!("x"), json!("2024-05-06T07:08:09Z")]);
        assert!(row.conditions.is_empty());
    }

    #[test]
    fn every_printer_makes_as_many_cells_as_it_has_columns_even_of_nothing() {
        let broken =
            [json!({}), json!(null), json!([1]), json!({"metadata": 1, "spec": [], "status": "x"})];
        for printer in kinds::ALL.iter().flat_map(|some| some.iter()) {
            for object in &broken {
                let row = printer.row(object, NOW);
                assert_eq!(row.cells.len(), printer.columns.len(), "{}", printer.kind);
            }
        }
    }

    #[test]
    fn columns_are_those_users_know() {
        let mut lines: Vec<String> = Vec::new();
        for printer in kinds::ALL.iter().flat_map(|some| some.iter()) {
            let star = |column: &Column| if column.priority > 0 { "*" } else { "" };
            let names: Vec<String> = printer
                .columns
                .iter()
                .map(|column| format!("{}{}", column.name, star(column)))
                .collect();
            lines.push(format!("{}/{}: {}\n", printer.group, printer.kind, names.join(", ")));
        }
        lines.sort();
        assert_eq!(lines.concat(), include_str!("columns.txt"));
    }

    #[test]
    fn every_kind_has_one_printer_and_every_column_a_description() {
        let mut seen = BTreeSet::new();
        for printer in kinds::ALL.iter().flat_map(|some| some.iter()) {
            assert!(seen.insert((printer.group, printer.kind)), "{}", printer.kind);
            let descriptions = printer.columns.iter().all(|column| !column.description.is_empty());
            assert!(descriptions, "{}", printer.kind);
        }
        assert!(seen.len() > 50);
    }
}
