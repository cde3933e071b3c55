//! One case: a request, and how much of the answer is of interest.

use std::collections::BTreeMap;

use apiserver::decode::yaml;
use apiserver::identity::User;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use super::super::world::{Answer, World, admin};
use super::show;

/// What a request may be named besides its method.
const PATCHES: [(&str, &str); 4] = [
    ("JSON-PATCH", "application/json-patch+json"),
    ("MERGE-PATCH", "application/merge-patch+json"),
    ("STRATEGIC-PATCH", "application/strategic-merge-patch+json"),
    ("APPLY", "application/apply-patch+yaml"),
];
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Words with a dollar sign: given by the file, or taken from the answer before.
#[derive(Default)]
pub struct Known(BTreeMap<String, String>);

impl Known {
    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Longer names first, so that none is taken for the beginning of another.
        let mut names: Vec<_> = self.0.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, value) in names {
            text = text.replace(&format!("${name}"), value);
        }
        text
    }

    fn learn(&mut self, answer: &Value) {
        for (name, place) in
            [("rv", "resourceVersion"), ("uid", "uid"), ("continue", "continue"), ("name", "name")]
        {
            if let Some(value) = answer["metadata"][place].as_str() {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

pub struct Case {
    /// The lines that ask, as they are in the file.
    pub question: String,
    method: String,
    path: String,
    body: String,
    headers: Vec<(String, String)>,
    user: User,
    /// Where to look in the answer; everything when empty.
    pointers: Vec<String>,
}

impl Case {
    /// A block of lines; None if it asks nothing.
    pub fn parse(block: &str, known: &mut Known) -> Option<Case> {
        let mut case = Case {
            question: String::new(),
            method: String::new(),
            path: String::new(),
            body: String::new(),
            headers: Vec::new(),
            user: admin(),
            pointers: Vec::new(),
        };
        for line in block.lines().filter(|line| !line.is_empty()) {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("=" | "|", _) => continue,
                ("#", _) => {}
                ("let", rest) => {
                    let (name, value) = rest.split_once(" = ").expect("let NAME = VALUE");
                    let value = known.fill(value);
                    known.0.insert(name.to_owned(), value);
                }
                (">", option) => case.option(&known.fill(option)),
                (_, _) => case.ask(&known.fill(line)),
            }
            case.question += &format!("{line}\n");
        }
        (!case.method.is_empty()).then_some(case)
    }

    fn ask(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let method = words.next().unwrap_or_default();
        self.path = words.next().unwrap_or_default().to_owned();
        let body = words.next().unwrap_or_default();
        self.method = method.to_owned();
        if let Some((_, media_type)) = PATCHES.iter().find(|(name, _)| *name == method) {
            self.method = "PATCH".to_owned();
            self.headers.push(("content-type".to_owned(), (*media_type).to_owned()));
        }
        if method == "TABLE" {
            self.method = "GET".to_owned();
            self.headers.push(("accept".to_owned(), TABLE.to_owned()));
        }
        // Written as YAML, which is JSON with fewer marks.
        if !body.is_empty() {
            let parsed = yaml::parse(body.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"));
            self.body = parsed.value.to_string();
        }
    }

    fn option(&mut self, option: &str) {
        let (name, rest) = option.split_once(' ').unwrap_or((option, ""));
        match name {
            "show" => self.pointers.extend(rest.split(' ').map(str::to_owned)),
            // As it stands, with line breaks written as \n.
            "raw" => self.body = rest.replace("\\n", "\n"),
            "as" => {
                let (user, groups) = rest.split_once(' ').unwrap_or((rest, ""));
                let groups = groups.split(',').filter(|group| !group.is_empty());
                self.user = match user {
                    "anonymous" => User::anonymous(),
                    user => User::authenticated(user, groups),
                };
            }
            "header" => {
                let (name, value) = rest.split_once(": ").expect("> header NAME: VALUE");
                self.headers.retain(|(known, _)| known != name);
                self.headers.push((name.to_owned(), value.to_owned()));
            }
            other => panic!("{other} is no option of a case"),
        }
    }

    /// Asks, and writes the answer as it is in the file.
    pub async fn answer(&self, world: &World, known: &mut Known) -> String {
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(self.body.clone()));
        let answer: Answer = world.ask(&self.user, request.body(body).unwrap()).await;
        // Who asks next may rely on a role that was just written.
        if self.method != "GET" && self.path.contains("rbac.authorization") {
            world.follow_roles().await;
        }
        known.learn(&answer.json());
        show::answer(&answer, &self.pointers)
    }
}
