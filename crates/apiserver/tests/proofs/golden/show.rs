//! Answers as text: on one line where that will do, and without what differs from run to run.

use apiserver::decode::yaml;
use serde_json::Value;

use super::super::world::Answer;

/// Fields that are different whenever what came before changes.
const MASKED: [&str; 5] =
    ["uid", "resourceVersion", "continue", "storageVersionHash", "controller-uid"];

/// Lines that begin with `=`, for the answer, and `|`, for more of it.
pub fn answer(answer: &Answer, pointers: &[String]) -> String {
    let mut text = format!("= {}", answer.status);
    let mut value = match answer.headers.get("content-type") {
        Some(media_type) if media_type == "application/yaml" => {
            yaml::parse(answer.text().as_bytes()).unwrap().value
        }
        _ => answer.json(),
    };
    if value.is_null() {
        text += &format!(" {}\n", one_line(answer.text().trim_end()));
        return text + &warnings(answer);
    }
    mask(&mut value);
    if value["kind"] == "Status" && value["status"] == "Failure" {
        text += &failure(&value);
    } else if value["kind"] == "Table" && pointers.is_empty() {
        text += &table(&value);
    } else if pointers.is_empty() {
        text += &format!(" {value}\n");
    } else {
        for pointer in pointers {
            let found = value.pointer(pointer).map(Value::to_string);
            text += &format!(" {}", found.as_deref().unwrap_or("-"));
        }
        text.push('\n');
    }
    if let Some(media_type) = answer.headers.get("content-type")
        && media_type != "application/json"
    {
        text += &format!("| {}\n", media_type.to_str().unwrap());
    }
    text + &warnings(answer)
}

fn one_line(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn warnings(answer: &Answer) -> String {
    let all = answer.headers.get_all("warning").iter();
    all.map(|warning| format!("| warning {}\n", warning.to_str().unwrap())).collect()
}

/// All of a failure in few words; one that has more or less than others is shown as it is.
fn failure(status: &Value) -> String {
    let mut rest = status.clone();
    let mut take = |name: &str| rest.as_object_mut().unwrap().remove(name).unwrap_or(Value::Null);
    let (reason, message) = (take("reason"), take("message"));
    let (details, metadata) = (take("details"), take("metadata"));
    for name in ["kind", "apiVersion", "status", "code"] {
        take(name);
    }
    let code_differs = status["code"].as_u64().is_none();
    let is_plain = rest.as_object().is_some_and(|rest| rest.is_empty());
    if !is_plain || code_differs || metadata != serde_json::json!({}) {
        return format!(" {status}\n");
    }
    let reason = reason.as_str().unwrap_or("-");
    let mut text = format!(" {reason}: {}\n", one_line(message.as_str().unwrap_or("-")));
    let Value::Object(mut details) = details else { return text };
    if let Some(Value::Array(causes)) = details.remove("causes") {
        for cause in causes {
            let part = |name: &str| cause[name].as_str().unwrap_or("-").to_owned();
            let message = one_line(&part("message"));
            text += &format!("| {} {} {message}\n", part("reason"), part("field"));
        }
    }
    if !details.is_empty() {
        text += &format!("| about {}\n", Value::Object(details));
    }
    text
}

/// Names of columns, those of `-o wide` with a star, and the cells of each row.
fn table(table: &Value) -> String {
    let mut text = " Table".to_owned();
    for column in table["columnDefinitions"].as_array().into_iter().flatten() {
        let star = if column["priority"] == 1 { "*" } else { "" };
        text += &format!("|{}{star}", column["name"].as_str().unwrap_or("?"));
    }
    text.push('\n');
    for row in table["rows"].as_array().into_iter().flatten() {
        let conditions = match &row["conditions"] {
            Value::Null => String::new(),
            conditions => format!(" {conditions}"),
        };
        text += &format!("| {}{conditions}\n", row["cells"]);
    }
    text
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // Who owns which field has cases of its own.
            map.remove("managedFields");
            for (name, value) in map {
                let is_masked =
                    MASKED.contains(&name.as_str()) || name.ends_with("/controller-uid");
                match value {
                    Value::String(text) if is_masked && !text.is_empty() => {
                        *text = format!("<{name}>");
                    }
                    Value::String(text) => *text = without_chance(text),
                    other => mask(other),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::String(text) => *text = without_chance(text),
        _ => {}
    }
}

/// The beginning of names that are made by chance and quoted in an answer.
const GENERATED: &str = "Made-";
/// How long the rest of such a name is.
const CHANCE_BYTES: usize = 5;

/// Texts that quote a uid, a revision or a name made by chance.
fn without_chance(text: &str) -> String {
    let words = text.split_inclusive([' ', ',', '(', ')', '"', '\n', '=']);
    let is_uid = |word: &str| {
        let word = word.trim_end_matches([' ', ',', '(', ')', '"', '\n', '.']);
        word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
    };
    let chance = |word: &str| {
        let rest = word.strip_prefix(GENERATED)?;
        let end = rest.get(CHANCE_BYTES..)?;
        (end.is_empty() || end.starts_with('"')).then(|| format!("{GENERATED}<chance>{end}"))
    };
    words
        .map(|word| match word.strip_suffix(')') {
            Some(number) if number.parse::<u64>().is_ok() => "<number>)".to_owned(),
            _ if is_uid(word) => format!("<uid>{}", &word[36..]),
            _ => chance(word).unwrap_or_else(|| word.to_owned()),
        })
        .collect()
}
