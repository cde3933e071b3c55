//! Metrics in the form that the client asks for: the text of Prometheus, or OpenMetrics.
//!
//! Counts are written once, as text of Prometheus; OpenMetrics differs in the names that families
//! of counters have, and ends with a mark, so that a cut answer is noticed.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::answer::Answer;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TOTAL: &str = "_total";
const END: &str = "# EOF\n";

/// Answers with metrics, which are text of Prometheus.
pub fn answer(headers: &HeaderMap, text: String) -> Answer {
    let said = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match is_preferred(&said.collect::<Vec<_>>().join(",")) {
        true => Answer::of(200, OPEN_METRICS, convert(&text)),
        false => Answer::of(200, PROMETHEUS, text),
    }
}

/// Whether a client that accepts this wants OpenMetrics.
fn is_preferred(accept: &str) -> bool {
    let weight = |media: &str| {
        let clauses = accept.split(',').map(|clause| clause.split(';').map(str::trim));
        let weights = clauses.filter_map(|mut clause| {
            let is_it = clause.next().is_some_and(|name| name.eq_ignore_ascii_case(media));
            let said = clause.find_map(|parameter| parameter.strip_prefix("q="));
            is_it.then(|| said.map_or(1.0, |said| said.parse().unwrap_or(0.0)))
        });
        weights.fold(0.0, f32::max)
    };
    let wanted = weight("application/openmetrics-text");
    wanted > 0.0 && wanted >= weight("text/plain")
}

/// The same counts, as OpenMetrics has them.
fn convert(text: &str) -> String {
    let counters = text.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        (kind == "counter").then_some(name)
    });
    let counters: Vec<&str> = counters.collect();
    let mut converted = String::with_capacity(text.len() + END.len());
    for line in text.lines() {
        converted.push_str(&convert_line(line, &counters));
        converted.push('\n');
    }
    converted.push_str(END);
    converted
}

/// A family of counters is called without the ending that its samples have; one whose samples have
/// another is of no kind that OpenMetrics knows.
fn convert_line(line: &str, counters: &[&str]) -> String {
    let Some((keyword, rest)) = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '))
    else {
        return line.to_owned();
    };
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if !counters.contains(&name) {
        return line.to_owned();
    }
    match (name.strip_suffix(TOTAL), keyword) {
        (Some(family), _) => format!("# {keyword} {family} {rest}"),
        (None, "TYPE") => format!("# TYPE {name} unknown"),
        (None, _) => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_counters_lose_their_ending_and_an_end_is_marked() {
        let text = "# HELP a_total Requests.\n# TYPE a_total counter\na_total{code=\"200\"} 2\n\
                    # HELP b Depth.\n# TYPE b gauge\nb 1\n\
                    # HELP c Old.\n# TYPE c counter\nc 3\n";
        assert_eq!(
            convert(text),
            "# HELP a Requests.\n# TYPE a counter\na_total{code=\"200\"} 2\n\
             # HELP b Depth.\n# TYPE b gauge\nb 1\n\
             # HELP c Old.\n# TYPE c unknown\nc 3\n# EOF\n"
        );
    }

    #[test]
    fn the_client_has_the_form_that_it_likes_best() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                             application/openmetrics-text;version=0.0.1;q=0.4,\
                             text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert!(is_preferred(of_prometheus));
        assert!(is_preferred("Application/OpenMetrics-Text"));
        let text_first = "text/plain, application/openmetrics-text; q=0.5";
        for other in ["", "*/*", "text/plain", text_first, "application/openmetrics-text;q=0"] {
            assert!(!is_preferred(other), "{other}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, "application/openmetrics-text".parse().unwrap());
        assert_eq!(answer(&headers, String::new()).content_type, OPEN_METRICS);
        assert_eq!(answer(&HeaderMap::new(), String::new()).content_type, PROMETHEUS);
    }
}
