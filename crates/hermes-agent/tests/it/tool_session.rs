//! A session in a temporary directory, for tests of tools.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use futures::future::BoxFuture;
use hermes_agent::{
    approval::{ApprovalRequest, ApprovalSettings, Approvals, Approver, Decision},
    tools::tool::{Tool, ToolContext, ToolOutput},
};
use hermes_config::Home;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A home, a working directory, and an approver.
pub(crate) struct ToolSession {
    _directory: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) context: ToolContext,
    pub(crate) person: Arc<FixedApprover>,
}

/// Always gives the same decision, and records the requests.
pub(crate) struct FixedApprover {
    answer: Mutex<Decision>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl FixedApprover {
    pub(crate) fn set_decision(&self, decision: Decision) {
        *self.answer.lock().unwrap() = decision;
    }

    pub(crate) fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for FixedApprover {
    fn request_approval(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        self.asked.lock().unwrap().push(request);
        Box::pin(std::future::ready(self.answer.lock().unwrap().clone()))
    }
}

impl ToolSession {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("work")).unwrap();
        fs::create_dir_all(root.join("home/mcp-tokens")).unwrap();
        fs::write(
            root.join("home/.env"),
            "SOME_API_KEY=very-secret-value\nPLAIN_NAME=also-secret\n",
        )
        .unwrap();
        fs::write(
            root.join("home/mcp-tokens/server.json"),
            "{\"token\": \"very-secret-value\"}",
        )
        .unwrap();
        fs::write(root.join("home/config.yaml"), "model: x\n").unwrap();
        let person = Arc::new(FixedApprover {
            answer: Mutex::new(Decision::Denied { reason: None }),
            asked: Mutex::default(),
        });
        let context = ToolContext {
            home: Home::at(root.join("home")),
            cwd: root.join("work"),
            session: "session".into(),
            call_id: "call".into(),
            cancel: CancellationToken::new(),
            approvals: Arc::new(Approvals::new(ApprovalSettings::default(), person.clone())),
            progress: Arc::new(|_| {}),
        };
        Self {
            _directory: directory,
            root,
            context,
            person,
        }
    }

    /// Writes a file of the working directory.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join("work").join(Path::new(path))
    }

    pub(crate) async fn call(&self, tool: &dyn Tool, arguments: Value) -> ToolOutput {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object");
        };
        tool.call(arguments, &self.context).await
    }

    /// Calls a tool that must not fail.
    pub(crate) async fn succeed(&self, tool: &dyn Tool, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(!output.is_error, "{}", output.text);
        output.text
    }

    /// Calls a tool that must fail, and returns the error.
    pub(crate) async fn fail(&self, tool: &dyn Tool, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(output.is_error, "{}", output.text);
        let value: Value = serde_json::from_str(&output.text).unwrap();
        value["error"].as_str().unwrap().to_owned()
    }
}
