//! Roles of the names that training programs print beside numbers.
//!
//! Programs print far more numbers than metrics: ports, seeds, settings. A name is taken for a
//! metric when it contains a word that only metrics have, or when it stands on a line with one.

/// Meaning of the number that belongs to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Epoch,
    Step,
    /// Number of epochs of the job.
    Epochs,
    /// Number of steps of the job.
    Steps,
    /// Progress of the job, as a fraction or in percent.
    Progress,
    RemainingSeconds,
    Metric(Confidence),
    /// Identifies the process or its surroundings.
    Setting,
}

/// Likelihood that a name is the name of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The name is enough.
    Certain,
    /// A measure of training that is also printed as a setting, such as the learning rate.
    Likely,
    /// Only the line that it stands on can tell.
    Unknown,
}

const EPOCH: &[&str] = &["epoch", "ep", "current_epoch"];
const STEP: &[&str] = &[
    "step",
    "global_step",
    "current_step",
    "train_step",
    "iter",
    "iteration",
    "it",
    "batch",
    "update",
    "round",
];
const EPOCHS: &[&str] =
    &["epochs", "num_epochs", "n_epochs", "max_epochs", "total_epochs", "num_train_epochs"];
const STEPS: &[&str] = &[
    "steps",
    "num_steps",
    "n_steps",
    "max_steps",
    "total_steps",
    "num_training_steps",
    "optimization_steps",
    "total_optimization_steps",
    "training_steps",
    "total_training_steps",
    "max_iters",
    "total_iters",
    "num_iterations",
    "total_iterations",
];
const PROGRESS: &[&str] =
    &["progress", "percent", "percentage", "progress_percent", "progress_percentage"];
const REMAINING: &[&str] = &["remaining_seconds", "eta_seconds", "estimated_remaining_seconds"];
const SETTINGS: &[&str] = &[
    "rank",
    "local_rank",
    "global_rank",
    "node_rank",
    "group_rank",
    "world_size",
    "local_world_size",
    "seed",
    "pid",
    "port",
    "master_port",
    "version",
    "v_num",
    "num_workers",
    "device",
    "gpu",
    "line",
];
/// Words of a name that make it a metric.
const CERTAIN: &[&str] = &[
    "loss",
    "losses",
    "acc",
    "accuracy",
    "ppl",
    "perplexity",
    "f1",
    "auc",
    "auroc",
    "precision",
    "recall",
    "reward",
    "bleu",
    "rouge",
    "mse",
    "mae",
    "rmse",
    "logloss",
    "iou",
    "miou",
    "wer",
    "cer",
    "nll",
    "elbo",
    "bce",
    "psnr",
    "ssim",
    "fid",
    "bpb",
    "top1",
    "top5",
];
const LIKELY: &[&str] = &[
    "lr",
    "learning_rate",
    "grad_norm",
    "gnorm",
    "throughput",
    "samples_per_second",
    "tokens_per_second",
    "mfu",
    "tflops",
    "kl",
    "entropy",
    "error",
    "score",
    "r2",
];

/// Returns the role of a name, whatever its case.
pub fn role(name: &str) -> Role {
    let normalized = normalize(name);
    let is_in = |names: &[&str]| names.contains(&normalized.as_str());
    match () {
        () if is_in(EPOCH) => Role::Epoch,
        () if is_in(STEP) => Role::Step,
        () if is_in(EPOCHS) => Role::Epochs,
        () if is_in(STEPS) => Role::Steps,
        () if is_in(PROGRESS) => Role::Progress,
        () if is_in(REMAINING) => Role::RemainingSeconds,
        () if is_in(SETTINGS) => Role::Setting,
        () if normalized.split('_').any(|word| CERTAIN.contains(&word)) => {
            Role::Metric(Confidence::Certain)
        }
        () if is_in(LIKELY) => Role::Metric(Confidence::Likely),
        () => Role::Metric(Confidence::Unknown),
    }
}

/// Writes `trainLoss`, `train-loss` and `Train/Loss` as `train_loss`.
fn normalize(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for letter in name.chars() {
        let is_separator = matches!(letter, '-' | '/' | '.' | '@' | '\'' | ' ' | '_');
        if (is_separator || (letter.is_uppercase() && was_lower)) && !normalized.ends_with('_') {
            normalized.push('_');
        }
        if !is_separator {
            normalized.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_role_that_its_words_say() {
        let certain = Role::Metric(Confidence::Certain);
        for (name, expected) in [
            ("loss", certain),
            ("trainLoss", certain),
            ("Val/Accuracy", certain),
            ("acc@1", certain),
            ("eval-rmse", certain),
            ("Epoch", Role::Epoch),
            ("num_train_epochs", Role::Epochs),
            ("global_step", Role::Step),
            ("max_steps", Role::Steps),
            ("lr", Role::Metric(Confidence::Likely)),
            ("learning_rate", Role::Metric(Confidence::Likely)),
            ("glossary", Role::Metric(Confidence::Unknown)),
            ("seed", Role::Setting),
            ("v_num", Role::Setting),
            ("", Role::Metric(Confidence::Unknown)),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }
}
