//! The last lines that operators wrote to the log, kept for whoever asks for them by the operator's
//! name: in one process with everything else there is no pod whose log could be read.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use reconcile::Environment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::operators;

/// Lines of one operator that are kept.
pub const LINES_MAX: usize = 4_096;
/// Lines of one answer.
pub const PAGE_LINES_MAX: usize = 256;
/// The longest text of a line; the rest of it is in the log.
const TEXT_BYTES_MAX: usize = 2_048;

/// Those of this process.
pub static KEPT: LazyLock<Kept> = LazyLock::new(Kept::default);

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Line {
    /// Greater than that of any line before.
    pub number: u64,
    pub time: String,
    pub level: String,
    pub message: String,
    /// Who wrote it, of which kind's object, and what else it says.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { time, level, message, .. } = self;
        write!(formatter, "{time} {level:>5} {message}")?;
        for (name, value) in &self.fields {
            match value.as_str() {
                Some(text) => write!(formatter, " {name}={text}")?,
                None => write!(formatter, " {name}={value}")?,
            }
        }
        Ok(())
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub operator: String,
    /// Lines with greater numbers.
    pub after: u64,
    /// Of those only so many, the last ones.
    pub tail: Option<usize>,
}

#[derive(Default)]
pub struct Kept(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    number: u64,
    /// Each with its number. As text: in maps, lines that are hardly ever asked for would take
    /// several times the room.
    by_operator: BTreeMap<&'static str, VecDeque<(u64, Box<str>)>>,
}

impl Kept {
    fn keep(&self, operator: &'static str, mut line: Line) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.number += 1;
        line.number = lines.number;
        let Ok(text) = serde_json::to_string(&line) else { return };
        let own = lines.by_operator.entry(operator).or_default();
        if own.len() >= LINES_MAX {
            own.pop_front();
        }
        own.push_back((line.number, text.into()));
    }

    /// A page of lines, the oldest first.
    pub fn page(&self, wanted: &Wanted) -> Vec<Line> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = lines.by_operator.get(wanted.operator.as_str()) else { return Vec::new() };
        let mut found: Vec<&str> = own
            .iter()
            .filter(|(number, _)| *number > wanted.after)
            .map(|(_, text)| &**text)
            .collect();
        if let Some(tail) = wanted.tail {
            found.drain(..found.len().saturating_sub(tail));
        }
        let page = found.into_iter().take(PAGE_LINES_MAX);
        page.filter_map(|text| serde_json::from_str(text).ok()).collect()
    }
}

/// Keeps what is written by controllers of operators.
pub struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut read = Read::default();
        event.record(&mut read);
        let by = ["controller", "operator"].iter().find_map(|name| read.fields.get(*name));
        let Some(operator) = by.and_then(Value::as_str).and_then(operator_of) else { return };
        let time = reconcile::environment::System.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let line = Line {
            number: 0,
            time: time.to_string(),
            level: event.metadata().level().to_string(),
            message: read.message,
            fields: read.fields,
        };
        KEPT.keep(operator, line);
    }
}

/// The operator that a controller is of.
fn operator_of(name: &str) -> Option<&'static str> {
    static OWNERS: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
        let mut owners = BTreeMap::new();
        for family in operators::ALL {
            for operator in family.operators() {
                owners.insert(operator.name, operator.name);
                let controllers = family.controllers(operator);
                owners.extend(controllers.into_iter().map(|name| (name, operator.name)));
            }
        }
        owners
    });
    OWNERS.get(name).copied()
}

/// The fields of a line.
#[derive(Default)]
struct Read {
    message: String,
    fields: Map<String, Value>,
}

impl Read {
    fn note(&mut self, field: &Field, mut text: String) {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX.min(text.len()));
        text.truncate(end);
        match field.name() {
            "message" => self.message = text,
            name => {
                self.fields.insert(name.to_owned(), json!(text));
            }
        }
    }
}

impl Visit for Read {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, format!("{value:?}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().to_owned(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name().to_owned(), json!(value));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn lines_are_kept_by_their_operator_and_not_for_ever() {
        let log = tracing_subscriber::registry().with(Keeper);
        tracing::subscriber::with_default(log, || {
            for at in 0..(LINES_MAX + 3) {
                tracing::info!(controller = "jobset", kind = "JobSet", at, "made");
            }
            tracing::info!(controller = "nobody", "not kept");
            tracing::warn!(operator = "lws", "it waits");
        });
        let page = |operator: &str, after: u64, tail: Option<usize>| {
            KEPT.page(&Wanted { operator: operator.to_owned(), after, tail })
        };
        let all = page("jobset", 0, None);
        assert_eq!(all.len(), PAGE_LINES_MAX);
        assert_eq!(all[0].fields["at"], 3);
        let last = page("jobset", 0, Some(2));
        assert_eq!(last.len(), 2);
        assert!(last[1].to_string().ends_with(" INFO made at=4098 controller=jobset kind=JobSet"));
        assert_eq!(page("jobset", last[1].number, None), []);
        assert_eq!(page("lws", 0, None)[0].level, "WARN");
    }
}
