//! Output of complete runs, and what is known after it.

use super::super::parse::parse_line;
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("the second is in range")
}

/// Reads lines that are one second apart.
fn after(lines: &[&str]) -> Report {
    let mut tracker = Tracker::default();
    for (second, line) in lines.iter().enumerate() {
        tracker.add(&parse_line(line), at(i64::try_from(second).expect("few lines")));
    }
    tracker.report()
}

fn percent(lines: &[&str]) -> Option<u8> {
    after(lines).percent
}

fn metric(report: &Report, name: &str) -> Option<String> {
    report.metrics.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

#[test]
fn progress_follows_from_the_lines_of_each_framework() {
    let table: &[(&str, &[&str], Option<u8>)] = &[
        ("nothing reported", &["hello", "seed=1"], None),
        ("a loss alone", &["loss=0.5"], None),
        ("an epoch that ended", &["epoch 3/20 loss=0.5"], Some(15)),
        ("an epoch that begins", &["Epoch 3/20"], Some(10)),
        ("the first epoch begins", &["Epoch 1/20"], Some(0)),
        ("epochs from zero", &["epoch 0/4 loss=1", "epoch 1/4 loss=1"], Some(50)),
        ("the last of them", &["epoch 0/3 loss=1", "epoch 3/3 loss=1"], Some(100)),
        ("steps within an epoch", &["Epoch [2/4], Step [50/100], Loss: 0.5"], Some(37)),
        ("steps of the job", &["step 500/2000 loss=1"], Some(25)),
        (
            "steps of the job, with epochs",
            &["Epoch 1/2 step 90/200 loss=1", "Epoch 2/2 step 110/200 loss=1", "step 150/200"],
            Some(75),
        ),
        ("an epoch without a total", &["Train Epoch: 3 [640/60000 (1%)]\tLoss: 2.2"], None),
        (
            "a total that was printed before",
            &["Namespace(epochs=4, lr=1.0)", "Train Epoch: 3 [30000/60000 (50%)]\tLoss: 2.2"],
            Some(62),
        ),
        ("Keras", &["Epoch 2/4", "50/100 ━━━━━━━━━━ 3s 1ms/step - loss: 0.4"], Some(37)),
        ("a percentage", &["progress: 45%"], Some(45)),
        ("JSON", &[r#"{"step": 100, "max_steps": 400, "loss": 1}"#], Some(25)),
        ("beyond the total", &["step 30/20 loss=1"], None),
        (
            "Lightning, whose epochs have no total",
            &["Epoch 3:  45%|████▌  | 45/100 [00:03<00:03, 14.5it/s, train_loss=0.2]"],
            None,
        ),
        (
            "an epoch with a bar",
            &["Epoch 3/20:  50%|████▌  | 50/100 [00:03<00:03, 14.5it/s, loss=0.2]"],
            Some(12),
        ),
    ];
    for (what, lines, expected) in table {
        assert_eq!(percent(lines), *expected, "{what}");
    }
}

const TRAINER_OUTPUT: &[&str] = &[
    "  0%|          | 0/24 [00:00<?, ?it/s]",
    "{'loss': '3.245', 'grad_norm': '0.786', 'learning_rate': '4.375e-05', 'epoch': '0.5'}",
    " 33%|███▎      | 8/24 [00:01<00:03,  4.16it/s]",
    "  0%|          | 0/8 [00:00<?, ?it/s]",
    " 88%|████████▊ | 7/8 [00:00<00:00, 23.71it/s]",
    "{'eval_loss': '3.24', 'eval_runtime': '0.3829', 'epoch': '1'}",
    "100%|██████████| 8/8 [00:00<00:00, 23.71it/s]",
];

#[test]
fn the_trainer_of_hugging_face_has_one_bar_for_the_job() {
    let report = after(TRAINER_OUTPUT);
    assert_eq!((report.percent, report.remaining_seconds), (Some(33), Some(3)));
    assert_eq!(metric(&report, "loss").as_deref(), Some("3.245"));
    assert_eq!(metric(&report, "epoch").as_deref(), Some("1"));
    // Evaluation after the last step does not begin the job again.
    let end = [
        "100%|██████████| 24/24 [00:05<00:00,  3.52it/s]",
        "  0%|          | 0/8 [00:00<?, ?it/s]",
        "{'train_runtime': '5.7', 'train_loss': '3.24', 'epoch': '3'}",
    ];
    assert_eq!(percent(&[TRAINER_OUTPUT, &end].concat()), Some(100));
}

#[test]
fn bars_of_preparation_do_not_count() {
    let prepared = [
        "Map: 100%|██████████| 1000/1000 [00:01<00:00, 812 examples/s]",
        "100%|██████████| 500/500 [00:01<00:00, 812it/s]",
    ];
    let begun = [" 25%|██▌       | 5/20 [00:01<00:03,  4.16it/s]"];
    assert_eq!(percent(&[&prepared[..], &begun].concat()), Some(25));
}

#[test]
fn a_bar_that_begins_again_is_not_the_progress_of_the_job() {
    let bar = |done: u32| format!("{done}%|█| {done}/100 [00:01<00:03,  4.16it/s, loss=0.5]");
    let (first, second) = (bar(90), bar(10));
    assert_eq!(percent(&[&first]), Some(90));
    let report = after(&[&first, &second]);
    assert_eq!((report.percent, report.remaining_seconds), (None, None));
    assert_eq!(metric(&report, "loss").as_deref(), Some("0.5"));
}

#[test]
fn the_remaining_time_follows_from_the_time_that_passed() {
    let lines: Vec<String> = (1..=5).map(|epoch| format!("epoch {epoch}/10 loss=1")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    // Four seconds for four epochs, five epochs to go.
    assert_eq!(after(&lines).remaining_seconds, Some(5));
    assert_eq!(after(&lines[..2]).remaining_seconds, None);
}

#[test]
fn metrics_are_few_and_the_loss_is_the_first() {
    let many: Vec<String> =
        (0..100).map(|number| format!("loss=1 metric{number}={number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let report = after(&[&["epoch 1/2 accuracy=0.5"], &many[..]].concat());
    assert_eq!(report.metrics.len(), METRICS_MAX);
    assert_eq!(report.metrics[0], ("loss".to_owned(), "1".to_owned()));
}

#[test]
fn a_later_process_continues_where_the_first_one_was() {
    let before = after(&["epoch 5/10 loss=0.5 accuracy=0.9"]);
    let mut tracker = Tracker::continue_from(&before, at(100));
    assert_eq!(tracker.report(), before);
    tracker.add(&parse_line("epoch 6/10 loss=0.4"), at(110));
    let report = tracker.report();
    assert_eq!((report.percent, report.remaining_seconds), (Some(60), Some(40)));
    assert_eq!(metric(&report, "accuracy").as_deref(), Some("0.9"));
}
