//! Puts an agent and a conversation together, as the arguments want them. Nothing here waits for servers or models.

use std::{path::PathBuf, sync::Arc};

use hermes_agent::{
    conversation::{
        Agent, AgentParts, Consent, Conversation, ConversationError, ConversationSetup,
        CwdOnResume, ProjectRules, RulesFile, SessionIdInPrompt, SessionReference,
        UserInstructions, find_project_rules, needs_server, unknown_toolsets,
    },
    model::{ModelOverrides, ResolveError},
    tools::TOOLSETS,
};
use hermes_config::{Settings, Variables};
use hermes_gateway::messenger::HomeMessenger;
use hermes_mcp::{Host, HostOptions, RememberedTools, ServerRequestHandler};
use hermes_store::{Access, Store};

use crate::{
    cli::ChatArgs,
    commands::sessions,
    context::Context,
    failure::{Failure, FailureKind},
};

/// The settings of a conversation. In safe mode, nothing of the user's own is read but the keys.
pub(super) fn chat_settings(context: &Context, args: &ChatArgs) -> Result<Settings, Failure> {
    let settings = if context.ignores_config() {
        let (variables, warnings) = Variables::load(&context.home, None);
        for warning in warnings {
            context.output.warning(warning.to_string());
        }
        Settings::parse("", variables)?
    } else {
        context.written_settings()?
    };
    if context.is_safe_mode() {
        context
            .output
            .note("safe mode: config.yaml, your own instructions and MCP servers are ignored");
    }
    let unknown = unknown_toolsets(&settings, "cli", &args.toolsets);
    if let Some(word) = unknown.first() {
        let servers = settings.servers.iter();
        let servers = servers.map(|entry| format!("mcp-{}", entry.name));
        let known = TOOLSETS.map(str::to_owned).into_iter().chain(servers);
        let known: Vec<String> = known.collect();
        return Err(
            Failure::usage(format!("there is no toolset or server `{word}`"))
                .suggest_nearest(word, toolset_names(&settings).into_iter())
                .hint(format!("there are: {}, all, no_mcp", known.join(", "))),
        );
    }
    Ok(settings)
}

/// The names of toolsets as people type them: a server's own stands for its toolset.
pub(super) fn toolset_names(settings: &Settings) -> Vec<String> {
    let servers = settings.servers.iter().map(|entry| entry.name.as_str());
    let known = TOOLSETS.into_iter().chain(servers);
    known.map(str::to_owned).collect()
}

/// Leaves out the servers that `--toolsets` has no use for: nobody can turn them on in this run.
pub(super) fn remove_unused_servers(args: &ChatArgs, settings: &mut Settings) {
    if args.toolsets.is_empty() {
        return;
    }
    let known = settings.clone();
    let is_needed = |name: &str| needs_server("cli", &args.toolsets, &known, name);
    settings
        .servers
        .retain(|entry| is_needed(entry.name.as_str()));
}

/// The agent: the store is open, the servers are being connected.
pub(super) async fn start_agent(
    context: &Context,
    settings: Settings,
    handler: Arc<dyn ServerRequestHandler>,
    remembered_tools: RememberedTools,
) -> Result<Agent, Failure> {
    let store = Store::open(&context.home, Access::ReadWrite).await?;
    let host = if context.is_safe_mode() {
        None
    } else {
        let options = HostOptions {
            request_handler: handler,
            reserved_names: Agent::reserved_names(),
            remembered_tools,
            ..HostOptions::new(context.home.clone(), context.guard_program()?)
        };
        Some(Host::start(options, &settings).await)
    };
    let parts = AgentParts {
        host,
        environment: std::env::vars_os().collect(),
        messenger: Some(HomeMessenger::new(&context.home)),
        ..AgentParts::new(context.home.clone(), store)
    };
    Ok(Agent::new(parts, settings))
}

/// The terms of a conversation.
pub(super) fn conversation_setup(
    context: &Context,
    args: &ChatArgs,
    consent: Consent,
) -> Result<ConversationSetup, Failure> {
    let cwd: PathBuf = std::env::current_dir().map_err(|error| {
        Failure::failed(format!("the current directory cannot be used: {error}"))
    })?;
    let consent = if args.yolo {
        Consent::AllowAll
    } else {
        consent
    };
    let mut setup = ConversationSetup::for_cli(cwd, consent);
    setup.model_overrides = ModelOverrides {
        model: args.model.clone(),
        provider: args.provider.clone(),
        ..ModelOverrides::default()
    };
    setup.toolsets = (!args.toolsets.is_empty()).then(|| args.toolsets.clone());
    setup.skills.clone_from(&args.skills);
    setup.max_model_calls = args.max_turns;
    setup.project_rules = ProjectRules::Read;
    if args.ignore_rules || context.is_safe_mode() {
        setup.user_instructions = UserInstructions::Ignored;
        setup.project_rules = ProjectRules::Ignored;
    }
    if args.no_restore_cwd {
        setup.cwd_on_resume = CwdOnResume::Keep;
    }
    if args.pass_session_id {
        setup.session_id = SessionIdInPrompt::Include;
    }
    Ok(setup)
}

/// The conversation: a new one, or the one that the arguments name.
pub(super) async fn open_conversation(
    agent: &Agent,
    args: &ChatArgs,
    setup: ConversationSetup,
) -> Result<Conversation, Failure> {
    let which = match (&args.resume, &args.continued) {
        (Some(reference), _) => SessionReference::Named(reference.clone()),
        (None, Some(Some(title))) => SessionReference::Titled(title.clone()),
        (None, Some(None)) => SessionReference::Newest {
            source: "cli".into(),
        },
        (None, None) => {
            check_skills(agent, &args.skills)?;
            return Ok(Conversation::new_cli(agent.clone(), setup));
        }
    };
    let resumed = Conversation::resume(agent.clone(), &which, setup).await;
    match resumed {
        Ok(conversation) => Ok(conversation),
        Err(error) => Err(resume_failure(agent, &error).await),
    }
}

/// Makes sure that the skills are there, before anything is sent.
fn check_skills(agent: &Agent, names: &[String]) -> Result<(), Failure> {
    let skills = agent.skills();
    for name in names {
        if let Err(error) = skills.find(name) {
            let known = skills.list().into_iter().map(|skill| skill.name);
            return Err(conversation_failure(&error.into()).suggest_nearest(name, known));
        }
    }
    Ok(())
}

/// Why a session is not gone on with. One that there is none of may have been mistyped.
pub(super) async fn resume_failure(agent: &Agent, error: &ConversationError) -> Failure {
    match error {
        ConversationError::NoSuchSession { reference } => {
            sessions::no_such_session(agent.store(), reference).await
        }
        error => conversation_failure(error),
    }
}

/// The rules that a conversation begins with; none where it is resumed with the prompt it had.
pub(super) async fn project_rules(
    conversation: &Conversation,
    wanted: ProjectRules,
) -> Option<RulesFile> {
    if conversation.is_stored() || wanted == ProjectRules::Ignored {
        return None;
    }
    let directory = conversation.cwd().to_owned();
    let selection = tokio::task::spawn_blocking(move || find_project_rules(&directory));
    selection.await.ok().flatten()
}

/// Stops servers and closes the store.
pub(super) async fn stop_agent(agent: &Agent) {
    if let Some(host) = agent.host() {
        host.shutdown().await;
    }
    agent.store().close().await;
}

/// What went wrong in a conversation, for the person who holds it.
pub(super) fn conversation_failure(error: &ConversationError) -> Failure {
    match error {
        ConversationError::NoSuchSession { .. } => {
            Failure::new(FailureKind::NotFound, error.to_string())
                .hint("`hermes sessions list` shows ids and titles")
        }
        ConversationError::Skill(_) => Failure::failed(error.to_string())
            .hint("skills are directories in `skills/` of the home"),
        ConversationError::NoModel(ResolveError::NoModel(advice)) => {
            Failure::failed(advice.to_string())
        }
        error => Failure::failed(error.to_string()),
    }
}
