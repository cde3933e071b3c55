//! The Helm chart says what the program says: its templates are the manifests of the operators,
//! with the namespace and the image left to whoever installs it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

/// What stands in the manifests where the chart leaves a choice.
const NAMESPACE: &str = "chart-namespace";
const IMAGE: &str = "chart-image";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/setpoint-operators")
}

fn is_of(document: &str, kind: &str) -> bool {
    document.lines().any(|line| line == format!("kind: {kind}"))
}

#[test]
fn the_image_has_the_user_and_the_program_that_the_manifests_ask_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| fs::read_to_string(root.join(name)).expect("it is there");
    let image = read("Dockerfile");
    let manifests = read("charts/setpoint-operators/templates/operators.yaml");
    assert!(manifests.contains("runAsUser: 65532") && image.contains("\nUSER 65532:65532\n"));
    // A Deployment says arguments and no command.
    assert!(manifests.contains("- operator\n") && !manifests.contains("command:"));
    assert!(image.contains("ENTRYPOINT [\"/usr/local/bin/setpoint\"]"), "{image}");
    assert!(read(".github/workflows/release.yml").contains("docker push"));
}

#[test]
fn the_chart_is_made_of_the_manifests() {
    let sandbox = Sandbox::new();
    let words = ["operator", "manifests", "--namespace", NAMESPACE, "--image", IMAGE];
    let all = sandbox.run(&words).stdout;
    assert!(!all.contains("{{"), "nothing may look like a template");
    let definitions = sandbox.run(&[&words[..], &["--definitions"]].concat()).stdout;
    let mut wanted = String::new();
    for document in all.split("---\n").skip(1) {
        match is_of(document, "CustomResourceDefinition") {
            true => assert!(definitions.contains(document), "a definition is missing"),
            false if is_of(document, "Namespace") => {}
            false => {
                wanted.push_str("---\n");
                wanted.push_str(document);
            }
        }
    }
    assert!(definitions.split("---\n").skip(1).all(|one| is_of(one, "CustomResourceDefinition")));
    let wanted = wanted.replace(NAMESPACE, "{{ .Release.Namespace }}");
    let wanted = wanted.replace(IMAGE, "{{ .Values.image }}");
    let path = chart().join("templates/operators.yaml");
    if std::env::var_os("SETPOINT_BLESS").is_some() {
        fs::write(&path, &wanted).expect("it is written");
    }
    let written = fs::read_to_string(&path).expect("the templates");
    assert!(written == wanted, "run this test with SETPOINT_BLESS=1");
    let about = fs::read_to_string(chart().join("Chart.yaml")).expect("the chart");
    assert!(about.contains(&format!("appVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{about}");
}
