//! All that `hermes up` runs besides the servers: the user's own home, in a Hub or without one.

use std::sync::Arc;

use hermes_config::Settings;
use hermes_gateway::gateway::Gateway;
use hermes_mcp::Host;
use tokio::sync::mpsc;

use super::{
    configuration::Configuration,
    hub::{self, Preparation},
    own_home::{self, OwnHome, Standing},
    view::View,
};
use crate::{
    answers::Answers,
    built_in,
    context::Context,
    failure::Failure,
    hosting::{Hosted, Prepared},
};

/// What somebody does next, in another terminal.
const NEXT: &str = "Next, in another terminal: `hermes mcp add --help` adds a server, `hermes chat` talks to the agent.";
/// The same while only the built-in server runs.
const FIRST: &str = "Next, in another terminal: `hermes mcp call demo.add a=1 b=2` calls a tool, `hermes mcp add --help` adds a server of \
                     your own, `hermes chat` talks to the agent.";

/// What the home works with besides its own.
pub(super) struct Around {
    pub(super) configuration: Arc<Configuration>,
    pub(super) host: Host,
    pub(super) answers: Arc<Answers>,
}

/// The home, and the Hub it is in.
pub(super) struct System {
    hosted: Option<Hosted>,
    home: Option<OwnHome>,
}

impl System {
    /// Opens the home, or finds the process that has it, and starts the Hub if there is one.
    pub(super) async fn start(
        context: &Context,
        preparation: Preparation,
        settings: &Settings,
        around: Around,
        (view, say): (&mut View, &mpsc::Sender<String>),
    ) -> Result<Self, Failure> {
        view.say(if built_in::is_alone(settings) {
            FIRST
        } else {
            NEXT
        });
        match preparation {
            Preparation::Hub(prepared) => {
                Self::with_hub(context, *prepared, settings, around, view).await
            }
            Preparation::Without(why) => {
                view.say(&why);
                Self::without_hub(context, settings, around, view, say).await
            }
        }
    }

    async fn with_hub(
        context: &Context,
        prepared: Prepared,
        settings: &Settings,
        around: Around,
        view: &mut View,
    ) -> Result<Self, Failure> {
        let main = hub::main_tenant()?;
        hub::link(&prepared, context.home.path(), &main).await?;
        let new_token = prepared.new_token.clone();
        let (home, agent) = match own_home::stand(&context.home)? {
            Standing::Ours(instance) => {
                let (home, agent) =
                    OwnHome::open(context, settings, around, &prepared, instance, &main).await?;
                (Some(home), agent)
            }
            Standing::Others(who) => {
                view.say(&format!("{who}: the tenant `{main}` is that one"));
                (None, own_home::elsewhere(&context.home, settings))
            }
        };
        let hosted = hub::start(prepared, main, agent).await?;
        if let Some(path) = new_token {
            view.say(&format!("Its token: in `{}`", path.display()));
        }
        view.say(&format!("Hub: {}", hosted.url()));
        Ok(Self {
            hosted: Some(hosted),
            home,
        })
    }

    async fn without_hub(
        context: &Context,
        settings: &Settings,
        around: Around,
        view: &mut View,
        say: &mpsc::Sender<String>,
    ) -> Result<Self, Failure> {
        let home = match own_home::stand(&context.home)? {
            Standing::Ours(instance) => {
                Some(OwnHome::alone(context, settings, around, instance, say.clone()).await?)
            }
            Standing::Others(who) => {
                view.say(&format!("{who}: it lets the jobs of this home run"));
                None
            }
        };
        Ok(Self { hosted: None, home })
    }

    /// The gateway of the home, if it is in this process.
    pub(super) fn gateway(&self) -> Option<Gateway> {
        self.home.as_ref().map(OwnHome::gateway)
    }

    /// Where the Hub is, if there is one.
    pub(super) fn url(&self) -> Option<String> {
        self.hosted.as_ref().map(Hosted::url)
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
