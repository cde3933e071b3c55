//! The pages of docs/, which the program carries with it: as text for `setpoint docs`, and as a
//! site that every server has at `/docs`.

mod site;

use serde::Serialize;

pub use site::Site;

macro_rules! pages {
    ($($name:literal: $about:literal),+ $(,)?) => {
        &[$(Page {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../docs/", $name, ".md")),
        }),+]
    };
}

/// Every page for people who use the program.
pub const PAGES: &[Page] = pages! {
    "getting-started": "a cluster on this machine, a pod, a service, a rollout",
    "training": "training jobs, from a script to a failed rank",
    "inference": "graphs of model servers",
    "machines": "virtual machines",
    "console": "the web console",
    "storage": "the stores, and several nodes on one of them",
    "history": "what changed and why, undo, plans, exports",
    "operators": "the operators on a cluster that you have already",
    "configuration": "the file, the variables, every key",
    "errors": "what the code behind a message means",
    "compatibility": "what of Kubernetes is served, and what is not",
    "benchmarks": "every figure, and how to measure it again",
    "extending": "a controller, a backend, a runtime, a plugin of your own",
};

#[derive(Serialize)]
pub struct Page {
    pub name: &'static str,
    pub about: &'static str,
    /// Markdown.
    #[serde(skip)]
    pub text: &'static str,
}

/// The page of a name, with or without the ending that it has in the tree.
pub fn find(name: &str) -> Option<&'static Page> {
    let name = name.strip_suffix(".md").unwrap_or(name);
    PAGES.iter().find(|page| page.name == name)
}
