//! Requests and their answers as data: the files in `tests/golden`, a server for each.
//!
//! `SETPOINT_BLESS=1` writes the answers as they are; whoever does so reads the difference.
//! The format is told in `tests/golden/README.txt`.

mod case;
mod show;

use std::path::{Path, PathBuf};

use super::world::World;
use case::{Case, Known};

const BLESS_VARIABLE: &str = "SETPOINT_BLESS";
/// Fewer would mean that files are not found.
const CASES_MIN: usize = 300;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "golden"));
    files.sort();
    files
}

/// Answers everything in a file, in order, and puts the answers where they belong.
async fn answered(text: &str) -> (String, usize) {
    let world = World::still().await;
    let mut known = Known::default();
    let mut out = String::new();
    let mut count = 0;
    for block in text.split("\n\n") {
        match Case::parse(block, &mut known) {
            None => out += block.trim_matches('\n'),
            Some(case) => {
                out += &case.question;
                out += &case.answer(&world, &mut known).await;
                count += 1;
            }
        }
        out = format!("{}\n\n", out.trim_end());
    }
    (format!("{}\n", out.trim_end()), count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_as_the_files_say() {
    let bless = std::env::var_os(BLESS_VARIABLE).is_some();
    let (mut count, mut differences) = (0, String::new());
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let (found, cases) = answered(&text).await;
        count += cases;
        if bless {
            std::fs::write(&path, found).unwrap();
            continue;
        }
        differences += &difference(&path, &text, &found);
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(count >= CASES_MIN, "only {count} cases");
}

/// The cases that differ, as they are and as they should be.
fn difference(path: &Path, expected: &str, found: &str) -> String {
    let mut text = String::new();
    for (expected, found) in expected.split("\n\n").zip(found.split("\n\n")) {
        if expected.trim() != found.trim() {
            let name = path.file_name().unwrap().to_string_lossy();
            text += &format!("\n{name}, expected:\n{expected}\nfound:\n{found}\n");
        }
    }
    text
}
