//! Several nodes of one Hub, as processes on one PostgreSQL and one S3 server: load on them, faults in the middle of
//! it, and whether everything that was acknowledged is there afterwards.

mod agent_locks;
mod check;
mod fault;
mod ledger;
mod load;
mod process;
mod request;

pub use fault::{FaultPlan, NodeFault, run_faults};
pub use ledger::FaultReport;
pub use process::HubNode;
pub use request::{NoReply, NodeReply, NodeRequest};

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    ChaosProxy, MotoKeys, MotoServer, TemporaryHome, Upstream,
    model::ModelServer,
    postgres::{PostgresCluster, TestDatabase},
    script::lock,
    wait_for, wait_until,
};
use process::NodeSetup;

/// Of anything that should happen, on a machine under load.
pub const NODE_TIMEOUT: Duration = Duration::from_mins(2);

/// Of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

const BUCKET: &str = "hub";

/// Where the nodes are. Shared by all who ask them.
#[derive(Debug, Clone)]
pub struct NodeAddresses {
    ports: Arc<Mutex<Vec<u16>>>,
    token: Arc<str>,
}

impl NodeAddresses {
    /// Asks one of the nodes.
    pub fn send(&self, node: usize, request: &NodeRequest) -> Result<NodeReply, NoReply> {
        let ports = lock(&self.ports).clone();
        let port = ports.get(node % ports.len().max(1)).copied().unwrap_or(0);
        request.send(port, &self.token, REQUEST_TIMEOUT)
    }

    /// Asks whoever listens at a port, such as a balancer before the nodes.
    pub fn send_to(&self, port: u16, request: &NodeRequest) -> Result<NodeReply, NoReply> {
        request.send(port, &self.token, REQUEST_TIMEOUT)
    }

    /// What all nodes let in.
    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn count(&self) -> usize {
        lock(&self.ports).len()
    }

    /// Asks all nodes in turns until one answers with success.
    ///
    /// # Panics
    ///
    /// If none does.
    pub fn must_send(&self, request: &NodeRequest) -> NodeReply {
        let end = Instant::now() + NODE_TIMEOUT;
        let mut node = 0;
        loop {
            let answered = self.send(node, request);
            if let Ok(reply) = &answered
                && reply.is_success()
            {
                return reply.clone();
            }
            assert!(Instant::now() < end, "{request:?}: {answered:?}");
            node += 1;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The nodes, their database, their objects and the model of their tenants.
pub struct NodeCluster {
    pub nodes: Vec<HubNode>,
    pub addresses: NodeAddresses,
    pub database: TestDatabase,
    pub lease_seconds: u64,
    pub model: ModelServer,
    _objects: MotoServer,
    _directory: TemporaryHome,
}

impl NodeCluster {
    /// Starts so many nodes of this program.
    ///
    /// # Panics
    ///
    /// If something of it does not start.
    pub fn start(
        program: &Path,
        postgres: &Arc<PostgresCluster>,
        count: usize,
        lease_seconds: u64,
    ) -> Self {
        let database = TestDatabase::create_in(postgres);
        let objects = MotoServer::start(BUCKET, MotoKeys::Any);
        let directory = TemporaryHome::new();
        // Tenants have users of their own, who must get through to their homes.
        open_directory(directory.path());
        let mut nodes = Vec::new();
        for number in 1..=count {
            let own = directory.path().join(format!("n{number}"));
            fs::create_dir_all(own.join("home"))
                .unwrap_or_else(|error| panic!("{}: {error}", own.display()));
            open_directory(&own);
            let server = ([127, 0, 0, 1], postgres.port()).into();
            let to_database = ChaosProxy::start(Upstream::Tcp(server));
            let to_objects = ChaosProxy::start(objects.address());
            let beside = |name: &str| directory.path().join(name).display().to_string();
            let settings = vec![
                format!(
                    "database.url=postgres://hermes@{}/{}",
                    to_database.address(),
                    database.name()
                ),
                format!("objects.url=s3://{BUCKET}/files"),
                format!("objects.endpoint=http://{}", to_objects.address()),
                "objects.allow_http=true".to_owned(),
                format!("secrets.key_file={}", beside("secret.key")),
                format!("admin_token_file={}", beside("admin.token")),
                format!("node.id=n{number}"),
                format!("node.lease_seconds={lease_seconds}"),
                "metrics.listen=off".to_owned(),
                "limits.rps_per_token=1000000".to_owned(),
                "limits.burst=1000000".to_owned(),
                "shutdown.drain_seconds=2".to_owned(),
            ];
            let setup = NodeSetup {
                program: program.to_owned(),
                id: format!("n{number}"),
                directory: own,
                settings,
                variables: Vec::new(),
            };
            nodes.push(HubNode::start(setup, to_database, to_objects));
        }
        let token = fs::read_to_string(directory.path().join("admin.token")).unwrap_or_default();
        let ports = nodes.iter().map(HubNode::port).collect();
        Self {
            nodes,
            addresses: NodeAddresses {
                ports: Arc::new(Mutex::new(ports)),
                token: token.trim().into(),
            },
            database,
            lease_seconds,
            model: ModelServer::start(load::model_script()),
            _objects: objects,
            _directory: directory,
        }
    }

    /// Publishes where the nodes are, after one was started again.
    pub fn publish_ports(&self) {
        *lock(&self.addresses.ports) = self.nodes.iter().map(HubNode::port).collect();
    }

    /// Makes a tenant whose model is the one of the test, with a share of its group.
    pub fn create_tenant(&self, id: &str) {
        let groups = json!([{"id": "team", "access": "write"}]);
        let tenant = json!({"id": id, "groups": groups});
        self.addresses
            .must_send(&NodeRequest::new("POST", "/v1/tenants", Some(tenant)));
        let path = format!("/v1/tenants/{id}");
        self.wait_for(&path, |tenant| tenant["status"] == "ready");
        let model = json!({"model": "m", "provider": "custom", "baseUrl": self.model.base_url()});
        let path = format!("/v1/tenants/{id}/model");
        self.addresses
            .must_send(&NodeRequest::new("PATCH", path, Some(model)));
    }

    /// Waits until something is as it should be, on any node.
    ///
    /// # Panics
    ///
    /// If it never is.
    pub fn wait_for(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut shown = Value::Null;
        let found = wait_for(NODE_TIMEOUT, || {
            shown = self.addresses.must_send(&NodeRequest::get(path)).json();
            is_so(&shown).then(|| shown.clone())
        });
        found.unwrap_or_else(|| panic!("{path} stays {shown}"))
    }

    /// Waits until a node says that it is ready.
    ///
    /// # Panics
    ///
    /// If it never does.
    pub fn wait_until_ready(&self, node: usize) {
        let ready = NodeRequest::get("/v1/readyz");
        let is_ready = wait_until(NODE_TIMEOUT, || {
            let answered = self.addresses.send(node, &ready);
            answered.is_ok_and(|reply| reply.is_success())
        });
        let name = self.nodes[node].id();
        assert!(
            is_ready,
            "{name} stays not ready: {}",
            self.nodes[node].log()
        );
    }

    /// The tenants whose lease a node holds, by the database.
    pub fn tenants_of(&self, node: usize) -> Vec<String> {
        let sql = format!(
            "SELECT tenant FROM leases WHERE node = '{}' AND expires_at > clock_timestamp() ORDER BY tenant",
            self.nodes[node].id()
        );
        let rows = self.database.run_sql(&sql);
        rows.lines().map(str::to_owned).collect()
    }
}

fn open_directory(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let opened = fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
