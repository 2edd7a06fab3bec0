//! Whether the files in `deploy/` are what the programs that read them expect, as far as these can be asked here.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use hermes_hub::settings::{Settings, SettingsSources};
use serde_json::Value;

use crate::harness::program::installed;

/// Checks manifests on its standard input against the schemas of Kubernetes, strictly.
const VALIDATE: &str = "
import sys, yaml, kubernetes_validate
for document in filter(None, yaml.safe_load_all(sys.stdin)):
    kubernetes_validate.validate(document, '1.30', strict=True)
    print(document['kind'])
";

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(path)
}

fn expect_success(mut command: Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}: {stdout}\n{stderr}");
    stdout.into_owned()
}

/// The chart with these values, or why it is refused.
fn render(helm: &Path, values: &[&str]) -> Output {
    let mut command = Command::new(helm);
    command
        .args(["template", "hub"])
        .arg(deploy("helm/hermes-hub"));
    for value in values {
        command.args(["--set", value]);
    }
    command.output().unwrap()
}

fn load(file: Option<&Path>, environment: BTreeMap<String, String>) -> Settings {
    let sources = SettingsSources {
        file: file.map(Path::to_owned),
        flags: BTreeMap::new(),
        environment,
    };
    Settings::load(&sources).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_chart_fits_the_schemas_of_kubernetes_and_its_settings_are_the_hubs() {
    let Some(helm) = installed("HERMES_TEST_VENV_DEPLOY", "bin/helm") else {
        return;
    };
    let values = [
        "objects.url=s3://hermes/hub",
        "objects.endpoint=https://s3.example.com",
        "publicUrl=https://hub.example.com",
        "ingress.enabled=true",
        "ingress.host=hub.example.com",
        "ingress.tlsSecret=hub-tls",
        "settings.runs.max_concurrent=8",
    ];
    let mut lint = Command::new(&helm);
    lint.args(["lint", "--strict", "--set", values[0]])
        .arg(deploy("helm/hermes-hub"));
    expect_success(lint);
    let rendered = render(&helm, &values);
    assert!(rendered.status.success(), "{rendered:?}");
    let directory = tempfile::tempdir().unwrap();
    let manifests = directory.path().join("manifests.yaml");
    fs::write(&manifests, &rendered.stdout).unwrap();
    let mut validate = Command::new(helm.with_file_name("python"));
    validate
        .args(["-c", VALIDATE])
        .stdin(fs::File::open(&manifests).unwrap());
    let kinds = expect_success(validate);
    for kind in ["StatefulSet", "Service", "PodDisruptionBudget", "Ingress"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds}");
    }
    let text = String::from_utf8(rendered.stdout).unwrap();
    let document = text
        .split("\n---\n")
        .find(|document| document.contains("kind: ConfigMap"))
        .unwrap();
    let map: Value = serde_saphyr::from_str(document).unwrap();
    let file = directory.path().join("hub.yaml");
    fs::write(&file, map["data"]["hub.yaml"].as_str().unwrap()).unwrap();
    let database = ("HERMES_HUB_DATABASE__URL", "postgres://u:p@db/hermes");
    let settings = load(Some(&file), owned([database]));
    assert_eq!(settings.public_url, "https://hub.example.com");
    assert_eq!(settings.runs.max_concurrent, 8);
}

#[test]
fn the_chart_refuses_values_that_would_not_work() {
    let Some(helm) = installed("HERMES_TEST_VENV_DEPLOY", "bin/helm") else {
        return;
    };
    for (values, named) in [
        (&["objects.url=http://bucket"][..], "objects.url"),
        (&["objects.url=s3://b", "nodes=0"], "nodes"),
        (&["objects.url=s3://b", "database.password=x"], "password"),
        (
            &["objects.url=s3://b", "ingress.enabled=true"],
            "ingress.host",
        ),
    ] {
        let refused = render(&helm, values);
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{values:?}");
        assert!(told.contains(named), "{values:?}: {told}");
    }
}

fn owned<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// The variables of the Hub in a text, with a value in place of references to others.
fn hub_variables(text: &str, separator: char) -> BTreeMap<String, String> {
    let lines = text.lines().map(|line| {
        line.trim()
            .trim_start_matches("ENV ")
            .trim_end_matches('\\')
            .trim()
    });
    lines
        .filter(|line| line.starts_with("HERMES_HUB_"))
        .filter_map(|line| line.split_once(separator))
        .map(|(name, value)| {
            let value = value
                .trim()
                .trim_matches('"')
                .replace("${POSTGRES_PASSWORD}", "x");
            (name.to_owned(), value)
        })
        .collect()
}

#[test]
fn every_variable_of_the_container_and_of_compose_is_a_setting() {
    let compose = fs::read_to_string(deploy("compose/compose.yaml")).unwrap();
    let variables = hub_variables(&compose, ':');
    assert!(variables.len() > 5, "{variables:?}");
    let settings = load(None, variables);
    assert_eq!(settings.public_url, "http://localhost:7878");
    let container = fs::read_to_string(deploy("container/Containerfile")).unwrap();
    let mut variables = hub_variables(&container, '=');
    assert!(variables.len() > 2, "{variables:?}");
    variables.insert("HERMES_HUB_INSECURE_HTTP".into(), "true".into());
    assert_eq!(load(None, variables).data_dir, Path::new("/data"));
}

#[test]
fn haproxy_accepts_the_configuration_of_the_compose_file() {
    let Some(haproxy) = installed("HERMES_TEST_HAPROXY", "") else {
        return;
    };
    let mut check = Command::new(haproxy);
    check.args(["-c", "-f"]).arg(deploy("compose/haproxy.cfg"));
    expect_success(check);
}

#[test]
fn systemd_accepts_the_units() {
    let Some(analyze) = installed("HERMES_TEST_SYSTEMD_ANALYZE", "") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for (unit, instance) in [
        ("hermes-hub.service", "hermes-hub.service"),
        ("hermes-hub@.service", "hermes-hub@one.service"),
    ] {
        let text = fs::read_to_string(deploy("systemd").join(unit)).unwrap();
        // The program is not installed here, which is not what is asked.
        let text = text.replace("/usr/local/bin/hermes", "/bin/true");
        let copy = directory.path().join(instance);
        fs::write(&copy, text).unwrap();
        let mut verify = Command::new(&analyze);
        verify.args(["verify", "--man=no"]).arg(&copy);
        expect_success(verify);
    }
}
