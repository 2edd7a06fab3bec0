//! All that `hermes up` runs besides the servers: the user's own home, in a Hub or without one.

use std::sync::Arc;

use hermes_config::{Secret, Settings};
use hermes_gateway::gateway::Gateway;
use hermes_mcp::Host;
use tokio::sync::mpsc;

use super::{
    configuration::UpConfiguration,
    hub::{self, HubPreparation},
    own_home::{self, GatewayOwner, OwnHome},
    view::UpView,
};
use crate::{
    catalog::built_in,
    context::Context,
    embedded_hub::{PreparedHub, RunningHub},
    failure::Failure,
    server_requests::ServerRequests,
};

/// What somebody does next, in another terminal.
const NEXT_STEPS: &str = "Next, in another terminal: `hermes mcp add --help` adds a server, `hermes chat` talks to the agent.";
/// The same while only the built-in server runs.
const FIRST: &str = "Next, in another terminal: `hermes mcp call demo.add a=1 b=2` calls a tool, `hermes mcp add --help` adds a server of \
                     your own, `hermes chat` talks to the agent.";

/// Where nobody has to sign in, or the link would be kept.
const LINK_HINT: &str =
    "The web console is there; `hermes hub login-link` makes a link that signs in.";

/// What the home works with besides its own.
pub(super) struct UpContext {
    pub(super) configuration: Arc<UpConfiguration>,
    pub(super) host: Host,
    pub(super) server_requests: Arc<ServerRequests>,
}

/// The home, and the Hub it is in.
pub(super) struct UpSystem {
    hosted: Option<RunningHub>,
    home: Option<OwnHome>,
    /// Signs in to the console.
    link: Option<Secret<String>>,
}

impl UpSystem {
    /// Opens the home, or finds the process that has it, and starts the Hub if there is one.
    pub(super) async fn start(
        context: &Context,
        preparation: HubPreparation,
        settings: &Settings,
        up: UpContext,
        (view, message_sender): (&mut UpView, &mpsc::Sender<String>),
    ) -> Result<Self, Failure> {
        view.print_message(if built_in::is_alone(settings) {
            FIRST
        } else {
            NEXT_STEPS
        });
        match preparation {
            HubPreparation::Hub(prepared) => {
                Self::with_hub(context, *prepared, settings, up, view).await
            }
            HubPreparation::Without(why) => {
                view.print_message(&why);
                Self::without_hub(context, settings, up, view, message_sender).await
            }
        }
    }

    async fn with_hub(
        context: &Context,
        prepared: PreparedHub,
        settings: &Settings,
        up: UpContext,
        view: &mut UpView,
    ) -> Result<Self, Failure> {
        let main = hub::main_tenant()?;
        hub::link_home(&prepared, context.home.path(), &main).await?;
        let new_token = prepared.new_token.clone();
        let (home, agent) = match own_home::claim_gateway(&context.home)? {
            GatewayOwner::Ours(instance) => {
                let (home, agent) =
                    OwnHome::open(context, settings, up, &prepared, instance, &main).await?;
                (Some(home), agent)
            }
            GatewayOwner::Others(who) => {
                let agent = own_home::agent_in_other_process(&context.home, settings);
                view.print_message(&if agent.is_reachable() {
                    format!("{who}; the Hub drives the tenant `{main}` through its HTTP API.")
                } else {
                    format!(
                        "{who}. It has no HTTP API, so the Hub shows the tenant `{main}` and cannot drive it: set \
                         API_SERVER_KEY for that gateway and restart it, or stop it."
                    )
                });
                (None, agent)
            }
        };
        let hosted = hub::start_hub(prepared, main, agent).await?;
        if let Some(path) = new_token {
            view.print_message(&format!("Admin token: in `{}`", path.display()));
        }
        view.print_message(&format!("Hub: {}", hosted.url()));
        let link = Self::make_sign_in_link(context, &hosted, view).await;
        Ok(Self {
            hosted: Some(hosted),
            home,
            link,
        })
    }

    /// On a terminal, whoever has not signed in to the console gets a link that does. What is printed elsewhere is
    /// kept in logs, where a link does not belong.
    async fn make_sign_in_link(
        context: &Context,
        hosted: &RunningHub,
        view: &mut UpView,
    ) -> Option<Secret<String>> {
        if !context.output.is_interactive() {
            view.print_message(LINK_HINT);
            return None;
        }
        match hosted.hub.first_sign_in_link().await {
            Ok(Some(link)) => {
                let link_text = link.expose();
                view.print_message(&format!(
                    "Sign in, once and within ten minutes: {link_text}"
                ));
                Some(link)
            }
            Ok(None) => {
                view.print_message(LINK_HINT);
                None
            }
            Err(problem) => {
                tracing::warn!(error = %problem.message, "failed to make a sign-in link");
                view.print_message(LINK_HINT);
                None
            }
        }
    }

    async fn without_hub(
        context: &Context,
        settings: &Settings,
        up: UpContext,
        view: &mut UpView,
        message_sender: &mpsc::Sender<String>,
    ) -> Result<Self, Failure> {
        let home = match own_home::claim_gateway(&context.home)? {
            GatewayOwner::Ours(instance) => Some(
                OwnHome::open_without_hub(context, settings, up, instance, message_sender.clone())
                    .await?,
            ),
            GatewayOwner::Others(who) => {
                view.print_message(&format!("{who}."));
                None
            }
        };
        Ok(Self {
            hosted: None,
            home,
            link: None,
        })
    }

    /// The gateway of the home, if it is in this process.
    pub(super) fn gateway(&self) -> Option<Gateway> {
        self.home.as_ref().map(OwnHome::gateway)
    }

    /// What a browser opens: the link that signs in. Whoever has signed in before has a tab or a bookmark of their own,
    /// and is not given another one with every start.
    pub(super) fn sign_in_link(&self) -> Option<Secret<String>> {
        self.link.clone()
    }

    /// Lets requests and runs end.
    pub(super) async fn close(self) {
        if let Some(hosted) = self.hosted {
            hosted.close().await;
        }
        if let Some(home) = self.home {
            home.close().await;
        }
    }
}
