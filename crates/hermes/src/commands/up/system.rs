//! All that `hermes up` runs besides the servers: the Hub, and in it the user's own home.

use std::sync::Arc;

use hermes_config::Settings;
use hermes_gateway::gateway::Gateway;
use hermes_mcp::Host;

use super::{
    configuration::Configuration,
    hub,
    own_home::{self, OwnHome, Standing},
    view::View,
};
use crate::{
    answers::Answers,
    context::Context,
    failure::Failure,
    hosting::{Hosted, Prepared},
};

/// What the home works with besides its own.
pub(super) struct Around {
    pub(super) configuration: Arc<Configuration>,
    pub(super) host: Host,
    pub(super) answers: Arc<Answers>,
}

/// The Hub and the home in it.
pub(super) struct System {
    hosted: Hosted,
    home: Option<OwnHome>,
}

impl System {
    /// Opens the home, or finds out who has it, and the doors of the Hub.
    pub(super) async fn start(
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
        view.say(&format!("Hub: {}", hosted.url()));
        if let Some(path) = new_token {
            view.say(&format!("Its token: in `{}`", path.display()));
        }
        Ok(Self { hosted, home })
    }

    /// The gateway of the home, if it is in this process.
    pub(super) fn gateway(&self) -> Option<Gateway> {
        self.home.as_ref().map(OwnHome::gateway)
    }

    /// Where the Hub is.
    pub(super) fn url(&self) -> String {
        self.hosted.url()
    }

    /// Lets requests and runs end.
    pub(super) async fn close(self) {
        self.hosted.close().await;
        if let Some(home) = self.home {
            home.close().await;
        }
    }
}
