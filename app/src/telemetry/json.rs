//! A line of the log as an object: `ts`, `level`, `target`, `msg`, then what the line says besides,
//! and `trace_id` where a request belongs to a trace.

use std::fmt::{self, Write as _};

use reconcile::Environment as _;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// What every line has; fields of the same name get an underscore behind it.
const OWN: [&str; 5] = ["ts", "level", "target", "msg", TRACE];
/// The field of the span that a request of a trace is answered within.
const TRACE: &str = "trace_id";

pub struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut read = Read::default();
        event.record(&mut read);
        let metadata = event.metadata();
        let time = reconcile::environment::System.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let (level, target, message) = (metadata.level(), metadata.target(), &read.message);
        write!(writer, r#"{{"ts":"{time}","level":"{level}","target":{}"#, json!(target))?;
        write!(writer, r#","msg":{}{}"#, json!(message), read.rest)?;
        if let Some(trace) = trace_of(context) {
            write!(writer, ",{trace}")?;
        }
        writer.write_str("}\n")
    }
}

/// The member that names the trace, as it was written when the span began.
fn trace_of<S, N>(context: &FmtContext<'_, S, N>) -> Option<String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut around = context.event_scope()?;
    let span = around.find(|span| span.metadata().fields().field(TRACE).is_some())?;
    let extensions = span.extensions();
    let fields = extensions.get::<FormattedFields<N>>()?.fields.as_str();
    Some(fields.strip_prefix('{')?.strip_suffix('}')?.to_owned())
}

/// The fields of a line, the message apart.
#[derive(Default)]
struct Read {
    message: String,
    rest: String,
}

impl Read {
    fn note(&mut self, field: &Field, value: &Value) {
        let name = field.name();
        let more = if OWN.contains(&name) { "_" } else { "" };
        // Writing to a String does not fail.
        let _ = write!(self.rest, ",{}:{value}", json!(format!("{name}{more}")));
    }
}

impl Visit for Read {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.note(field, &json!(value)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.note(field, &json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.note(field, &json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.note(field, &json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.note(field, &json!(value));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::fmt::layer;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_an_object_with_its_fields_and_its_trace() {
        let kept = Kept::default();
        let writer = kept.clone();
        let layer = layer().event_format(Json).fmt_fields(JsonFields::new());
        let log = tracing_subscriber::registry().with(layer.with_writer(move || writer.clone()));
        tracing::subscriber::with_default(log, || {
            tracing::info!(object = %"a/\"b\"", rev = 7, level = 3, "phase changed");
            let _around = tracing::error_span!("trace", trace_id = "4bf9").entered();
            let _library = tracing::info_span!("other", object = "none of ours").entered();
            tracing::warn!(is_late = true, "slow\nly");
        });
        let text = kept.0.lock().expect("nobody panics").clone();
        let text = String::from_utf8(text).expect("lines are text");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line must be JSON"))
            .collect();
        let [plain, traced] = &lines[..] else { panic!("{text}") };
        assert_eq!(plain["msg"], "phase changed");
        assert_eq!(plain["object"], "a/\"b\"");
        assert_eq!((&plain["rev"], &plain["level_"]), (&json!(7), &json!(3)));
        assert_eq!((&plain["level"], &plain[TRACE]), (&json!("INFO"), &Value::Null));
        assert!(plain["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')), "{text}");
        assert!(plain["target"].as_str().is_some_and(|target| target.contains("telemetry")));
        assert_eq!((&traced["msg"], &traced[TRACE]), (&json!("slow\nly"), &json!("4bf9")));
        assert_eq!((&traced["is_late"], &traced["object"]), (&json!(true), &Value::Null));
    }
}
