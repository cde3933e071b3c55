//! Progress bars of tqdm (Hugging Face, Lightning, plain loops) and Keras.

use std::sync::LazyLock;

use regex::Regex;

use super::sample::Bar;

/// ` 45%|████▌     | 45/100 [00:03<00:03, 14.5it/s, loss=0.2]`
static TQDM: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(\d{1,3})%\|[^|]*\|\s*([\d.]+[kMG]?)/([\d.]+[kMG]?)\s*\[([\d:]+)<([\d:?]+)([^\]]*)\]?",
    )
});
/// `1875/1875 ━━━━━━━━━━ 3s 1ms/step - loss: 0.48`, with `[=====>...]` in older versions.
static KERAS: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"^\s*(\d+)/(\d+)\s+(?:\[[=>. ]+\]|[━╸╺─]+)\s"));

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant")
}

/// Finds the bar of a line. The second value is the rest of the line: description and postfix.
pub fn find_bar(line: &str) -> Option<(Bar, String)> {
    tqdm(line).or_else(|| keras(line))
}

fn tqdm(line: &str) -> Option<(Bar, String)> {
    let found = TQDM.captures(line)?;
    let whole = found.get(0)?;
    let description = line[..whole.start()].trim().trim_end_matches(':').to_owned();
    let bar = Bar {
        current: amount(&found[2])?,
        total: amount(&found[3])?,
        remaining_seconds: clock_seconds(&found[5]),
        description,
    };
    let rest = format!("{} , {} , {}", bar.description, &found[6], &line[whole.end()..]);
    (bar.total > 0.0 && bar.current <= bar.total).then_some((bar, rest))
}

fn keras(line: &str) -> Option<(Bar, String)> {
    let found = KERAS.captures(line)?;
    let bar = Bar {
        description: String::new(),
        current: found[1].parse().ok()?,
        total: found[2].parse().ok()?,
        remaining_seconds: None,
    };
    let rest = line[found.get(0)?.end()..].to_owned();
    (bar.total > 0.0 && bar.current <= bar.total).then_some((bar, rest))
}

/// Reads `1.5k` as 1500.
fn amount(text: &str) -> Option<f64> {
    let (digits, scale) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1e3),
        'M' => (&text[..text.len() - 1], 1e6),
        'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * scale)
}

/// Reads `1:02:03` and `02:03`. tqdm prints `?` while it does not know.
fn clock_seconds(text: &str) -> Option<u64> {
    text.split(':').try_fold(0_u64, |seconds, part| {
        let part: u64 = part.parse().ok()?;
        seconds.checked_mul(60)?.checked_add(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_description_position_and_remaining_time() {
        let (bar, rest) =
            find_bar("train:  24%|██▍       | 12/50 [00:03<01:10,  3.9it/s, loss=0.5]").unwrap();
        assert_eq!((bar.description.as_str(), bar.current, bar.total), ("train", 12.0, 50.0));
        assert_eq!(bar.remaining_seconds, Some(70));
        assert!(rest.contains("loss=0.5"), "{rest}");
        let (bar, _) = find_bar("  0%|          | 0/500 [00:00<?, ?it/s]").unwrap();
        assert_eq!((bar.current, bar.remaining_seconds), (0.0, None));
        let (bar, _) = find_bar("5%|▌| 1.5k/30.0k [1:00:00<19:00:00, 2it/s]").unwrap();
        assert_eq!((bar.current, bar.remaining_seconds), (1_500.0, Some(68_400)));
    }

    #[test]
    fn a_line_that_only_resembles_a_bar_is_none() {
        let beyond_total = "3%|x| 9/3 [00:01<00:02, 1it/s]";
        for line in ["disk 45%| full", "100%", "12/50", beyond_total, "%|| /["] {
            assert_eq!(find_bar(line), None, "{line}");
        }
    }
}
