//! Every row of the feature table of the trainer has a test: `rows.txt` says which, by row.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("rows.txt");
const ROWS: u32 = 70;

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
    for directory in ["src", "tests", "../../app/tests/program"] {
        sources(&here.join(directory), &mut text);
    }
    let mut rows = BTreeSet::new();
    for line in TABLE.lines() {
        let (row, proofs) = line.split_once(' ').expect("a row and its proofs");
        rows.insert(row.parse::<u32>().expect("a number"));
        for proof in proofs.split(' ') {
            let is_there = match proof.strip_prefix("goldens/") {
                Some(golden) => here.join("goldens").join(golden).exists(),
                None => text.contains(&format!("fn {proof}()")),
            };
            assert!(is_there, "row {row}: there is no {proof}");
        }
    }
    let missing: Vec<u32> = (1..=ROWS).filter(|row| !rows.contains(row)).collect();
    assert_eq!(missing, [] as [u32; 0]);
}
