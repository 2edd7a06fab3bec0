//! Whether the files in `deploy/` are what the programs that read them expect, as far as these can be asked here.

mod systemd;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use hermes_hub::settings::{Settings, SettingsSources};
use serde_json::{Value, json};

use crate::harness::{
    program::{CommandOutput, installed, run},
    test_home::BackgroundProcess,
};

/// Checks manifests on its standard input against the schemas of Kubernetes, strictly.
const VALIDATE: &str = "
import sys, yaml, kubernetes_validate
for document in filter(None, yaml.safe_load_all(sys.stdin)):
    kubernetes_validate.validate(document, '1.30', strict=True)
    print(document['kind'])
";

/// Prints what a parser of container files finds in the one on its standard input.
const PARSE: &str = "
import io, json, sys, dockerfile_parse
parsed = dockerfile_parse.DockerfileParser(fileobj=io.BytesIO(sys.stdin.buffer.read()))
steps = [[step['instruction'], step['value']] for step in parsed.structure]
print(json.dumps({'stages': parsed.parent_images, 'steps': steps, 'variables': parsed.envs}))
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
    let map = find_manifest(&text, "ConfigMap");
    let file = directory.path().join("hub.yaml");
    fs::write(&file, map["data"]["hub.yaml"].as_str().unwrap()).unwrap();
    let node = find_manifest(&text, "StatefulSet")["spec"]["template"]["spec"].clone();
    let settings = load(Some(&file), node_variables(&node));
    assert_eq!(settings.public_url, "https://hub.example.com");
    assert_eq!(settings.runs.max_concurrent, 8);
    // The Hub owns its directory, and a new mount leaves the permissions in it as they are.
    let mounts = node["containers"][0]["volumeMounts"].as_array().unwrap();
    let data = mounts.iter().find(|mount| mount["name"] == "data").unwrap();
    let volume = Path::new(data["mountPath"].as_str().unwrap());
    assert_eq!(settings.data_dir.parent(), Some(volume));
    assert_eq!(
        node["securityContext"]["fsGroupChangePolicy"],
        "OnRootMismatch"
    );
    // A service may be named so that Kubernetes would add variables which are no settings.
    assert_eq!(node["enableServiceLinks"], false);
}

/// The manifest of a kind.
fn find_manifest(text: &str, kind: &str) -> Value {
    let mut documents = text.split("\n---\n");
    let is_kind = |document: &&str| document.contains(&format!("kind: {kind}\n"));
    serde_saphyr::from_str(documents.find(is_kind).unwrap()).unwrap()
}

/// The Hub's variables in a pod, with a value in place of references to Secrets.
fn node_variables(node: &Value) -> BTreeMap<String, String> {
    let variables = node["containers"][0]["env"].as_array().unwrap().iter();
    let hubs = variables.filter(|variable| {
        let name = variable["name"].as_str().unwrap();
        name.starts_with("HERMES_HUB_")
    });
    hubs.map(|variable| {
        let name = variable["name"].as_str().unwrap().to_owned();
        let value = match variable["value"].as_str() {
            Some(value) => value.to_owned(),
            None if name.ends_with("__URL") => "postgres://u:p@db/hermes".into(),
            None => "hub-0".into(),
        };
        (name, value)
    })
    .collect()
}

#[test]
fn the_chart_takes_further_variables_volumes_and_settings_that_name_them() {
    let Some(helm) = installed("HERMES_TEST_VENV_DEPLOY", "bin/helm") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let values = directory.path().join("values.yaml");
    let given = json!({
        "objects": {"url": "s3://hermes/hub", "accessKeyFrom": null, "secretKeyFrom": null},
        "settings": {"oidc": {
            "issuer": "https://login.example.com", "client_id": "hub", "client_secret": "${env:OIDC_SECRET}",
            "roles": {"*": "viewer"},
        }, "isolation": {"read_paths": ["/opt/servers"]}},
        "env": [
            {"name": "OIDC_SECRET", "valueFrom": {"secretKeyRef": {"name": "oidc", "key": "secret"}}},
            {"name": "HERMES_HUB_RUNS__MAX_CONCURRENT", "value": "9"},
        ],
        "envFrom": [{"secretRef": {"name": "more"}}],
        "volumes": [{"name": "servers", "configMap": {"name": "servers"}}],
        "volumeMounts": [{"name": "servers", "mountPath": "/opt/servers", "readOnly": true}],
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "hub",
        "ingress": {"enabled": true, "host": "hub.example.com", "annotations": {"a/b": "100m"}},
    });
    fs::write(&values, given.to_string()).unwrap();
    let mut template = Command::new(&helm);
    template
        .args(["template", "hub", "--values"])
        .arg(&values)
        .arg(deploy("helm/hermes-hub"));
    let text = expect_success(template);
    let manifests = directory.path().join("manifests.yaml");
    fs::write(&manifests, &text).unwrap();
    let mut validate = Command::new(helm.with_file_name("python"));
    validate
        .args(["-c", VALIDATE])
        .stdin(fs::File::open(&manifests).unwrap());
    expect_success(validate);
    let node = find_manifest(&text, "StatefulSet")["spec"]["template"]["spec"].clone();
    let hub = &node["containers"][0];
    for (list, name) in [
        (&hub["env"], "OIDC_SECRET"),
        (&hub["volumeMounts"], "servers"),
        (&node["volumes"], "servers"),
        (&node["imagePullSecrets"], "registry"),
    ] {
        let items = list.as_array().unwrap();
        assert!(items.iter().any(|item| item["name"] == name), "{list}");
    }
    assert_eq!(hub["envFrom"][0]["secretRef"]["name"], "more");
    assert_eq!(node["serviceAccountName"], "hub");
    // With a role of its own, a node has no keys.
    assert!(!text.contains("AWS_ACCESS_KEY_ID"), "{text}");
    let ingress = find_manifest(&text, "Ingress");
    assert_eq!(ingress["metadata"]["annotations"]["a/b"], "100m");
    let file = directory.path().join("hub.yaml");
    let map = find_manifest(&text, "ConfigMap");
    fs::write(&file, map["data"]["hub.yaml"].as_str().unwrap()).unwrap();
    let mut variables = node_variables(&node);
    variables.insert("OIDC_SECRET".into(), "from-a-secret".into());
    let settings = load(Some(&file), variables);
    assert_eq!(settings.runs.max_concurrent, 9);
    let secret = settings.oidc.unwrap().client_secret.unwrap();
    assert_eq!(secret.expose(), "from-a-secret");
}

/// A Hub as the user of the chart's pods, with a data directory below a volume as a cluster mounts it: it belongs to
/// root, and to the group of the pod.
fn on_volume(volume: &Path, data_dir: &Path) -> Command {
    std::os::unix::fs::chown(volume, Some(0), Some(10_001)).unwrap();
    crate::harness::test_home::set_mode(volume, 0o2775);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "10001", "--regid", "10001", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_hermes"))
        .args(["hub", "serve", "--set", "runtime=mock"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", data_dir)
        .env("HERMES_HUB_DATA_DIR", data_dir)
        .env("HERMES_HUB_LISTEN", "127.0.0.1:0")
        .env("HERMES_HUB_METRICS__LISTEN", "off")
        .current_dir(volume);
    command
}

#[test]
fn a_node_keeps_its_data_on_a_volume_that_belongs_to_root() {
    if !rustix::process::geteuid().is_root() {
        println!("!!! NOT TESTED: only root can make the volume !!!");
        return;
    }
    let volume = tempfile::tempdir().unwrap();
    let data = volume.path().join("hub");
    let mut node = BackgroundProcess::start(on_volume(volume.path(), &data));
    node.wait_for("listens on http://");
    assert!(data.join("admin.token").exists());
    assert_eq!(crate::harness::test_home::mode(&data), 0o700);
    drop(node);
    // The volume itself cannot be closed to others, which is told.
    let refused: CommandOutput = run(on_volume(volume.path(), volume.path()), "");
    assert_ne!(refused.code, 0);
    let (owner, way_out) = ("belongs to user 0", "choose a directory in it");
    assert!(
        refused.stderr.contains(owner) && refused.stderr.contains(way_out),
        "{refused:?}"
    );
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
            &["objects.url=s3://b", "database.maxConnections=2"],
            "maxConnections",
        ),
        (&["objects.url=s3://b", "env.A=x"], "env"),
        (
            &["objects.url=s3://b", "volumeMounts[0].name=x"],
            "mountPath",
        ),
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
fn the_compose_file_fits_the_schema_of_compose() {
    let Some(check) = installed("HERMES_TEST_VENV_DEPLOY", "bin/check-jsonschema") else {
        return;
    };
    let file = deploy("compose/compose.yaml");
    let against = |file: &Path| {
        let mut command = Command::new(&check);
        command
            .args(["--builtin-schema", "vendor.compose-spec"])
            .arg(file);
        command
    };
    expect_success(against(&file));
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("compose.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&wrong, text.replace("depends_on:", "depends:")).unwrap();
    assert!(!against(&wrong).status().unwrap().success());
}

#[test]
fn each_node_of_the_compose_file_keeps_its_data_in_a_volume_of_its_own() {
    let text = fs::read_to_string(deploy("compose/compose.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let services = file["services"].as_object().unwrap().iter();
    let nodes = services.filter(|(name, _)| name.starts_with("hub"));
    let mut volumes: Vec<&str> = nodes
        .map(|(_, node)| node["volumes"][0].as_str().unwrap())
        .filter_map(|mount| mount.strip_suffix(":/data"))
        .collect();
    volumes.sort_unstable();
    assert_eq!(volumes, ["node1", "node2", "node3"]);
    let named = file["volumes"].as_object().unwrap();
    for volume in volumes {
        assert!(named.contains_key(volume), "{volume} in {named:?}");
    }
}

#[test]
fn a_parser_of_container_files_finds_a_small_image_without_root() {
    let Some(python) = installed("HERMES_TEST_VENV_DEPLOY", "bin/python") else {
        return;
    };
    let mut parse = Command::new(python);
    parse
        .args(["-c", PARSE])
        .stdin(fs::File::open(deploy("container/Containerfile")).unwrap());
    let found: Value = serde_json::from_str(&expect_success(parse)).unwrap();
    // The last stage has the base that `BASE` names, and of the first one only the program.
    assert_eq!(found["stages"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["stages"][1], "debian:12-slim", "{found}");
    let steps = found["steps"].as_array().unwrap();
    let last = steps.iter().rposition(|step| step[0] == "FROM").unwrap();
    let of = |name: &str| {
        let found = steps[last..].iter().filter(|step| step[0] == name);
        found
            .map(|step| step[1].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("USER"), ["10001:10001"]);
    assert_eq!(of("VOLUME"), ["/data"]);
    assert_eq!(of("RUN"), [""; 0], "nothing is run in the image");
    assert!(
        of("COPY").iter().all(|copy| copy.contains("--from=build")),
        "{found}"
    );
    assert_eq!(of("ENTRYPOINT"), [r#"["/usr/local/bin/hermes"]"#]);
    assert!(of("HEALTHCHECK")[0].contains(r#""hub", "status""#));
    assert_eq!(found["variables"]["HERMES_HUB_DATA_DIR"], "/data");
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
