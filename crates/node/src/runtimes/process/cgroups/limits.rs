//! What limits are in the files of control groups. Pure.

use crate::confinement::Share;

/// Processor time is given out in pieces of this length, in microseconds.
pub const CPU_PERIOD: u64 = 100_000;
const SHARES: (u64, u64) = (2, 262_144);

/// A file of a group, and what to write into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub file: &'static str,
    pub text: String,
    /// Not every kernel has it; the container may run without.
    pub is_optional: bool,
}

/// The settings for a group in a hierarchy with these controllers.
pub fn settings(
    is_unified: bool,
    controllers: &[String],
    share: &Share,
    processes: Option<u64>,
) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut set = |file, text: String, is_optional| {
        settings.push(Setting { file, text, is_optional });
    };
    let has = |name: &str| controllers.iter().any(|one| one == name);
    if has("cpu") {
        let shares = share.cpu_shares.unwrap_or(SHARES.0).clamp(SHARES.0, SHARES.1);
        match (is_unified, share.cpu_quota) {
            (false, quota) => {
                set("cpu.shares", shares.to_string(), false);
                if let Some(quota) = quota {
                    set("cpu.cfs_period_us", CPU_PERIOD.to_string(), false);
                    set("cpu.cfs_quota_us", quota.to_string(), false);
                }
            }
            (true, quota) => {
                set("cpu.weight", weight(shares).to_string(), false);
                if let Some(quota) = quota {
                    set("cpu.max", format!("{quota} {CPU_PERIOD}"), false);
                }
            }
        }
    }
    if let (true, Some(bytes)) = (has("memory"), share.memory_bytes) {
        if is_unified {
            set("memory.max", bytes.to_string(), false);
            set("memory.swap.max", "0".to_owned(), true);
            set("memory.oom.group", "1".to_owned(), true);
        } else {
            set("memory.limit_in_bytes", bytes.to_string(), false);
            set("memory.memsw.limit_in_bytes", bytes.to_string(), true);
        }
    }
    if let (true, Some(processes)) = (has("pids"), processes) {
        set("pids.max", processes.to_string(), false);
    }
    settings
}

/// Shares of the first version as a weight of the second, so that one processor, 1024 shares, is
/// near the middle, 100: a curve through both ends and the middle of the scales.
///
/// Upstream: opencontainers/cgroups (ConvertCPUSharesToCgroupV2Value)
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both scales are small and positive"
)]
fn weight(shares: u64) -> u64 {
    if shares <= SHARES.0 {
        return 1;
    }
    if shares >= SHARES.1 {
        return 10_000;
    }
    let power = (shares as f64).log2();
    let exponent = (power * power + 125.0 * power) / 612.0 - 7.0 / 34.0;
    10_f64.powf(exponent).ceil() as u64
}

/// Returns the page cache that the kernel can give up at once, from `memory.stat`. The file of the
/// older hierarchy counts the groups within only under names with `total_`.
pub fn inactive_file_bytes(stat: &str) -> u64 {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok())
    };
    value("total_inactive_file ").or_else(|| value("inactive_file ")).unwrap_or(0)
}

/// How many processes were killed for want of memory, from the text that tells.
pub fn killed_for_memory(text: &str) -> u64 {
    let number = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(is_unified: bool, controllers: &[&str], processes: Option<u64>) -> Vec<String> {
        let share = Share {
            cpu_shares: Some(1024),
            cpu_quota: Some(150_000),
            memory_bytes: Some(64 << 20),
        };
        let controllers: Vec<String> = controllers.iter().map(|&one| one.to_owned()).collect();
        let settings = settings(is_unified, &controllers, &share, processes);
        settings.iter().map(|one| format!("{}={}", one.file, one.text)).collect()
    }

    #[test]
    fn both_versions_get_the_same_limits_in_their_own_words() {
        assert_eq!(
            told(false, &["cpu"], Some(9)),
            ["cpu.shares=1024", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000"]
        );
        assert_eq!(
            told(false, &["memory", "pids"], Some(9)),
            [
                "memory.limit_in_bytes=67108864",
                "memory.memsw.limit_in_bytes=67108864",
                "pids.max=9"
            ]
        );
        assert_eq!(
            told(true, &["cpu", "memory", "pids"], None),
            [
                "cpu.weight=100",
                "cpu.max=150000 100000",
                "memory.max=67108864",
                "memory.swap.max=0",
                "memory.oom.group=1"
            ]
        );
        assert!(told(true, &[], Some(9)).is_empty());
        assert_eq!([2, 3, 262_143, 262_144].map(weight), [1, 2, 10_000, 10_000]);
    }

    #[test]
    fn both_versions_tell_what_was_killed() {
        assert_eq!(killed_for_memory("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2);
        assert_eq!(killed_for_memory("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n"), 1);
        assert_eq!(killed_for_memory(""), 0);
    }
}
