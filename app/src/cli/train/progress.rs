//! Progress and metrics of a job in one line, and the trend of its loss.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

/// Metrics that are shown in a line. The others are in the output as JSON.
const METRICS_SHOWN_MAX: usize = 5;
/// Values that the trend has.
const TREND_VALUES_MAX: usize = 16;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes `status.trainerStatus` as ` 40%, 2m05s left, loss 0.2`. Nothing was reported: no text.
pub fn summary(reported: &Value, has_ended: bool) -> String {
    let mut text = String::new();
    if let Some(percent) = reported["progressPercentage"].as_i64() {
        text.push_str(&format!(" {percent}%"));
    }
    let remaining = reported["estimatedRemainingSeconds"].as_i64();
    if let Some(seconds) = remaining.filter(|_| !has_ended) {
        text.push_str(&format!(", {}m{:02}s left", seconds / 60, seconds % 60));
    }
    let metrics = reported["metrics"].as_array().map_or(&[][..], Vec::as_slice);
    for metric in metrics.iter().take(METRICS_SHOWN_MAX) {
        let field = |name: &str| metric[name].as_str().unwrap_or_default();
        text.push_str(&format!(", {} {}", field("name"), field("value")));
    }
    if metrics.len() > METRICS_SHOWN_MAX {
        text.push_str(&format!(", {} more", metrics.len() - METRICS_SHOWN_MAX));
    }
    text
}

/// The last values of the loss, drawn as a line of bars.
#[derive(Debug, Default)]
pub struct Trend {
    values: VecDeque<f64>,
    reported_at: String,
}

impl Trend {
    /// Adds the loss of a report, once.
    pub fn add(&mut self, reported: &Value) {
        let at = reported["lastUpdatedTime"].as_str().unwrap_or_default();
        if at.is_empty() || self.reported_at == at {
            return;
        }
        at.clone_into(&mut self.reported_at);
        let mut metrics = reported["metrics"].as_array().into_iter().flatten();
        let is_loss = |one: &&Value| one["name"].as_str().is_some_and(|name| name.contains("loss"));
        let loss = metrics.find(is_loss).and_then(|one| one["value"].as_str()?.parse().ok());
        if let Some(loss) = loss.filter(|loss: &f64| loss.is_finite()) {
            self.values.push_back(loss);
        }
        if self.values.len() > TREND_VALUES_MAX {
            self.values.pop_front();
        }
    }
}

impl fmt::Display for Trend {
    /// Draws nothing for fewer than two values.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.values.len() < 2 {
            return Ok(());
        }
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let last = LEVELS.len() - 1;
        formatter.write_str(" ")?;
        for value in &self.values {
            let share = if most > least { (value - least) / (most - least) } else { 0.0 };
            let level = (share * last as f64).round() as usize;
            write!(formatter, "{}", LEVELS[level.min(last)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(at: usize, loss: &str) -> Value {
        json!({"lastUpdatedTime": at.to_string(), "metrics": [{"name": "accuracy", "value": "1"},
            {"name": "train_loss", "value": loss}]})
    }

    #[test]
    fn a_report_is_one_line_and_no_report_is_none() {
        let metric = |number: usize| json!({"name": format!("m{number}"), "value": "1"});
        let many: Vec<Value> = (0..7).map(metric).collect();
        let reported = json!({"progressPercentage": 0, "estimatedRemainingSeconds": 125,
            "metrics": many});
        let text = " 0%, 2m05s left, m0 1, m1 1, m2 1, m3 1, m4 1, 2 more";
        assert_eq!(summary(&reported, false), text);
        assert_eq!(summary(&json!({"metrics": [metric(0)]}), true), ", m0 1");
        assert_eq!(summary(&Value::Null, false), "");
    }

    #[test]
    fn the_trend_shows_the_last_losses() {
        let mut trend = Trend::default();
        assert_eq!(trend.to_string(), "");
        for (at, loss) in ["4", "2", "NaN", "0.5"].iter().enumerate() {
            trend.add(&report(at, loss));
            trend.add(&report(at, loss));
        }
        assert_eq!(trend.to_string(), " █▄▁");
        for at in 10..100 {
            trend.add(&report(at, "1"));
        }
        assert_eq!(trend.to_string(), format!(" {}", "▁".repeat(TREND_VALUES_MAX)));
    }
}
