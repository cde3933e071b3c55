//! Objects in files: which files are meant, what is in them, and where they are wrong.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use serde_json::Value;

use super::exit::{self, Failure};
use super::known;

/// The objects of files, directories and standard input (`-`), each with the file it is of.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Value)>> {
    let mut objects = Vec::new();
    for path in paths {
        for file in files_of(path)? {
            objects.extend(read(&file)?.into_iter().map(|object| (file.clone(), object)));
        }
    }
    match objects.is_empty() {
        true => Err(anyhow!("there is no object in what was given with -f")),
        false => Ok(objects),
    }
}

/// The files that are meant, in the order of their names.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let reading = || format!("could not read the directory {}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(reading)? {
        let file = entry.with_context(reading)?.path();
        let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if matches!(end, "yaml" | "yml" | "json") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The objects of one file.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    let reading = || format!("could not read {}", path.display());
    let text = match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).with_context(reading)?;
            text
        }
        _ => std::fs::read_to_string(path).with_context(reading)?,
    };
    parse(&path.display().to_string(), &text)
}

/// The objects of a text; an error says where in it, and shows the line.
fn parse(name: &str, text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| explained(name, text, &error))?;
    Ok(documents.into_iter().flat_map(objects_of).collect())
}

fn explained(name: &str, text: &str, error: &serde_saphyr::Error) -> anyhow::Error {
    let error = error.without_snippet();
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(&*message, |(what, _)| what);
    let Some(location) = error.location() else {
        return anyhow!("{name}: this is not YAML: {message}");
    };
    let (line, column) = (location.line(), location.column());
    let what = format!("{name}:{line}:{column}: this is not YAML: {message}");
    let at = usize::try_from(line).unwrap_or(1).saturating_sub(1);
    let shown = text.lines().nth(at).map(|text| {
        let gap = usize::try_from(column).unwrap_or(1).saturating_sub(1).min(text.chars().count());
        format!("{line:>5} | {text}\n      | {}^", " ".repeat(gap))
    });
    anyhow!(Failure { shown, ..Failure::new(exit::FAILED, what).known(&known::NOT_YAML) })
}

/// A document is an object, a list of objects, or nothing.
fn objects_of(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        _ if document.is_null() => Vec::new(),
        _ => vec![document],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_an_object_a_list_or_nothing() {
        let count = |document: Value| objects_of(document).len();
        assert_eq!(count(Value::Null), 0);
        assert_eq!(count(json!({"kind": "Pod"})), 1);
        assert_eq!(count(json!({"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Pod"}]})), 2);
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_is() {
        let error = parse("job.yaml", "kind: Job\nmetadata:\n  name: [a\n").expect_err("no list");
        let failure = error.downcast_ref::<Failure>().expect("it says where");
        assert!(failure.what.starts_with("job.yaml:"), "{failure:?}");
        let shown = failure.shown.as_deref().expect("the line");
        assert!(shown.contains(" | ") && shown.ends_with('^'), "{shown}");
    }
}
