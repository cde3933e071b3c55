//! Every row of the feature table, and every defect of upstream, has a test: `rows.txt` says which.

use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("rows.txt");
const ROWS: usize = 27;
const DEFECTS: usize = 12;

/// The text of every source below a directory.
fn sources(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).expect("a directory of ours").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push_str(&fs::read_to_string(&path).expect("readable"));
        }
    }
}

#[test]
fn every_row_of_the_feature_table_has_a_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    let elsewhere = ["../../app/tests/program", "../node/src/machines", "../hypervisor"];
    for directory in ["src", "tests"].into_iter().chain(elsewhere) {
        sources(&here.join(directory), &mut text);
    }
    let (mut rows, mut defects) = (0, 0);
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (row, proofs) = line.split_once(": ").expect("a row and its proofs");
        match row.starts_with("defect ") {
            true => defects += 1,
            false => rows += 1,
        }
        for proof in proofs.split(' ') {
            let is_there = match proof.strip_prefix("goldens/") {
                Some(golden) => here.join("goldens").join(golden).exists(),
                None => text.contains(&format!("fn {proof}()")),
            };
            assert!(is_there, "{row}: there is no {proof}");
        }
    }
    assert_eq!((rows, defects), (ROWS, DEFECTS));
}
