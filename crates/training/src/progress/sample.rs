//! Numbers of one line of output, before they are put together with those of earlier lines.

/// Everything that one line says about training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub epoch: Option<Counter>,
    /// Step, iteration or batch, of the epoch or of the job.
    pub step: Option<Counter>,
    /// Part of the epoch that is done, as `[640/60000]` beside a metric.
    pub within_epoch: Option<Counter>,
    pub bar: Option<Bar>,
    /// Progress of the job, 0 to 1.
    pub fraction: Option<f64>,
    pub remaining_seconds: Option<u64>,
    pub epochs_total: Option<f64>,
    pub steps_total: Option<f64>,
    /// Names and values, in the order of the line.
    pub metrics: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    pub current: f64,
    pub total: Option<f64>,
}

/// A progress bar, as tqdm and Keras print it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub description: String,
    pub current: f64,
    pub total: f64,
    pub remaining_seconds: Option<u64>,
}

impl Sample {
    pub fn is_empty(&self) -> bool {
        *self == Sample::default()
    }

    /// Sets a metric. The last value of a name counts.
    pub fn set_metric(&mut self, name: String, value: String) {
        match self.metrics.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => self.metrics.push((name, value)),
        }
    }
}

impl Counter {
    /// Part that is done. Nothing without a total, or beyond it.
    pub fn fraction(self, known_total: Option<f64>) -> Option<f64> {
        let total = self.total.or(known_total)?;
        (total > 0.0 && (0.0..=total).contains(&self.current)).then(|| self.current / total)
    }
}

/// Longest value of a metric that the API accepts, and longest name.
const TEXT_BYTES_MAX: usize = 64;
/// Longest number that is shown as the program printed it.
const PRINTED_BYTES_MAX: usize = 16;

/// Returns a number as a metric has it: as it was printed, or `NaN`, `Infinity`, `-Infinity`.
pub fn value_text(printed: &str) -> Option<String> {
    let number: f64 = printed.parse().ok()?;
    Some(match number {
        _ if number.is_nan() => "NaN".to_owned(),
        _ if number == f64::INFINITY => "Infinity".to_owned(),
        _ if number == f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if printed.len() <= PRINTED_BYTES_MAX => printed.trim_start_matches('+').to_owned(),
        _ if number.abs() < 1e-4 || number.abs() >= 1e15 => format!("{number:.6e}"),
        _ => format!("{number:.6}"),
    })
}

/// True if the API accepts a name of a metric.
pub fn is_metric_name(name: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}
