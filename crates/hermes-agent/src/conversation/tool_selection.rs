//! Which tools a turn has: built-in ones and those of servers, selected by toolsets.

use std::sync::Arc;

use hermes_config::{AuxiliaryTask, Home, ServerName, Settings};
use hermes_mcp::{RegisteredTool, Registry, ServerStatus, tools::toolset};
use hermes_protocol::Feature;

use super::Conversation;
use crate::{
    conversation::state::LazyAuxiliaryModel,
    tools::{
        self, ToolDeps,
        home::{cronjob::HomeJobs, memory::MemoryLimits},
        send_message::{Messenger, has_platform},
        tool::Tool,
        toolbox::Toolbox,
        web::{AddressScope, WebClient, search::SearchEngine},
    },
};

const ALL_TOOLSETS: [&str; 2] = ["all", "*"];
const NO_MCP: &str = "no_mcp";

/// Whether the user switched a toolset on or off in this conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsetSwitch {
    On,
    Off,
}

/// A toolset and its tools, for listings.
#[derive(Debug, Clone)]
pub struct ToolsetEntry {
    /// Its name: `file`, or `mcp-` and a server's.
    pub name: String,
    pub kind: ToolsetKind,
    /// Whether the model gets it.
    pub is_offered: bool,
    /// Its tools, offered or not.
    pub tools: Vec<ToolEntry>,
}

#[derive(Debug, Clone)]
pub enum ToolsetKind {
    BuiltIn,
    Server(Box<ServerStatus>),
}

/// A tool, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolEntry {
    pub name: String,
    /// The server's own name for it; the same for built-in tools.
    pub original: String,
    pub description: String,
}

impl Conversation {
    /// The tools of a turn that starts now.
    pub fn toolbox(&self) -> Toolbox {
        let settings = self.agent.settings();
        let mut built_in = self.built_in_tools();
        built_in.retain(|tool| self.offers_built_in(&settings, tool.toolset()));
        let shared = self.agent.shared_definitions().clone();
        let toolbox =
            Toolbox::with_shared(built_in, shared).with_policy(self.agent.policy_handle());
        match self.agent.host() {
            Some(host) => {
                let registry = host.registry();
                let offered = self.offered_mcp_tools(&settings, &registry);
                let names = settings.servers.iter().map(|entry| &entry.name);
                let servers = names
                    .filter(|name| self.allows_server(&settings, name))
                    .cloned()
                    .collect();
                let context = self.model().and_then(|it| it.model.context_length());
                toolbox
                    .with_mcp(host.clone(), registry, offered, servers)
                    .with_search(&settings.tool_search, context)
            }
            None => toolbox,
        }
    }

    /// All toolsets: the built-in ones first, then those of the servers in the order of the configuration. A server without
    /// tools has none.
    pub fn toolsets(&self) -> Vec<ToolsetEntry> {
        let settings = self.agent.settings();
        let mut entries: Vec<ToolsetEntry> = Vec::new();
        for tool in self.built_in_tools() {
            let definition = tool.definition();
            let entry = ToolEntry {
                original: definition.name.clone(),
                name: definition.name,
                description: definition.description.to_string(),
            };
            match entries.iter_mut().find(|set| set.name == tool.toolset()) {
                Some(set) => set.tools.push(entry),
                None => entries.push(ToolsetEntry {
                    name: tool.toolset().to_owned(),
                    kind: ToolsetKind::BuiltIn,
                    is_offered: self.offers_built_in(&settings, tool.toolset()),
                    tools: vec![entry],
                }),
            }
        }
        let Some(host) = self.agent.host() else {
            return entries;
        };
        let registry = host.registry();
        let offered = self.offered_mcp_tools(&settings, &registry);
        entries.extend(host.status().into_iter().filter_map(|status| {
            let tools = registry
                .tools()
                .filter(|tool| tool.server.as_str() == status.name);
            let tools: Vec<ToolEntry> = tools.map(|tool| tool_entry(tool)).collect();
            (!tools.is_empty()).then(|| ToolsetEntry {
                name: toolset::toolset_name(&ServerName::new(&status.name)),
                is_offered: offered
                    .iter()
                    .any(|tool| tool.server.as_str() == status.name),
                tools,
                kind: ToolsetKind::Server(Box::new(status)),
            })
        }));
        entries
    }

    /// Turns a toolset or server on or off from the next turn on. `false` if there is none of that name.
    pub fn switch_toolset(&mut self, name: &str, switch: ToolsetSwitch) -> bool {
        let name = name.strip_prefix("mcp-").unwrap_or(name);
        let is_known =
            tools::TOOLSETS.contains(&name) || self.agent.settings().server(name).is_some();
        if is_known {
            self.tools.switches.insert(name.to_owned(), switch);
        }
        is_known
    }

    fn built_in_tools(&self) -> Vec<Arc<dyn Tool>> {
        let settings = self.agent.settings();
        let home = self.agent.home().clone();
        let policy_handle = self.agent.policy_handle();
        let policy = policy_handle.policy();
        let environment = self.agent.environment().into_iter().filter(|(name, _)| {
            let name = name.to_str();
            name.is_none_or(|name| policy.allows_variable(name))
        });
        tools::built_in_tools(ToolDeps {
            #[cfg(unix)]
            terminal: Some((
                self.agent.terminal_settings(&settings, environment),
                self.tools.processes.clone(),
            )),
            todo: self.tools.todo.clone(),
            memory: MemoryLimits::from_document(&settings.document),
            questioner: self.setup.questioner.clone(),
            sessions: Some(Arc::new(self.agent.store().clone())),
            skills: Some(Arc::new(self.agent.skills())),
            cron_jobs: Some(Arc::new(self.home_jobs(home, &settings))),
            messenger: self.messenger(&settings),
            web: Some(WebClient::with_policy(
                AddressScope::from_document(&settings.document),
                policy_handle.clone(),
            )),
            search_engine: SearchEngine::from_variables(&settings.variables),
            vision: Some(Arc::new(LazyAuxiliaryModel {
                agent: self.agent.clone(),
                main: self.model.selection.clone(),
                task: AuxiliaryTask::Vision,
            })),
            policy: policy_handle.clone(),
            teams: self.agent.teams().cloned(),
        })
    }

    fn home_jobs(&self, home: Home, settings: &Arc<Settings>) -> HomeJobs {
        let jobs = HomeJobs::new(home, settings, self.setup.cron_origin.clone())
            .with_policy(self.agent.policy_handle().clone());
        match self.agent.messenger() {
            Some(messenger) => jobs.with_messenger(messenger.clone(), settings.clone()),
            None => jobs,
        }
    }

    /// The messenger, if a platform is configured and the policy allows messaging.
    fn messenger(&self, settings: &Arc<Settings>) -> Option<(Arc<dyn Messenger>, Arc<Settings>)> {
        let messenger = self.agent.messenger()?;
        let is_offered =
            has_platform(settings) && self.agent.policy().has_feature(Feature::Messaging);
        is_offered.then(|| (messenger.clone(), settings.clone()))
    }

    fn offers_built_in(&self, settings: &Settings, name: &str) -> bool {
        let is_disabled = settings.toolsets.disabled.iter().any(|word| word == name);
        if is_disabled || self.setup.excluded_toolsets.iter().any(|word| word == name) {
            return false;
        }
        match self.tools.switches.get(name) {
            Some(switch) => *switch == ToolsetSwitch::On,
            None => self
                .toolset_choice(settings)
                .has_built_in(name, &self.setup.platform),
        }
    }

    fn offered_mcp_tools(
        &self,
        settings: &Settings,
        registry: &Registry,
    ) -> Vec<Arc<RegisteredTool>> {
        let tools = registry.tools();
        tools
            .filter(|tool| self.allows_server(settings, &tool.server))
            .cloned()
            .collect()
    }

    /// Whether the toolsets include a server, connected or not.
    fn allows_server(&self, settings: &Settings, server: &ServerName) -> bool {
        match (
            self.tools.switches.get(server.as_str()),
            self.toolset_choice(settings),
        ) {
            (Some(ToolsetSwitch::Off), _) => false,
            (Some(ToolsetSwitch::On), _) => {
                toolset::allows_server(settings, &[toolset::toolset_name(server)], server)
            }
            (None, ToolsetChoice::Configured(words)) => {
                toolset::allows_server(settings, words, server)
            }
            (None, ToolsetChoice::Named(words)) => {
                let has_any = words.iter().any(|word| {
                    selects_all(word, &self.setup.platform)
                        || toolset::find_server(settings, word).is_some()
                });
                has_any && toolset::allows_server(settings, words, server)
            }
        }
    }

    fn toolset_choice<'a>(&'a self, settings: &'a Settings) -> ToolsetChoice<'a> {
        if let Some(words) = &self.setup.toolsets {
            return ToolsetChoice::Named(words);
        }
        let mut platforms = settings.toolsets.platforms.iter();
        let list = platforms.find(|(name, _)| *name == self.setup.platform);
        ToolsetChoice::Configured(list.map_or(&[], |(_, words)| words.as_slice()))
    }
}

/// The toolsets that were chosen, and how.
#[derive(Clone, Copy)]
enum ToolsetChoice<'a> {
    /// For one run: exactly these.
    Named(&'a [String]),
    /// From the configuration, where a list without built-in toolsets includes all of them.
    Configured(&'a [String]),
}

impl ToolsetChoice<'_> {
    fn has_built_in(self, name: &str, platform: &str) -> bool {
        let (Self::Named(words) | Self::Configured(words)) = self;
        let is_named = words
            .iter()
            .any(|word| word == name || selects_all(word, platform));
        let names_any = words
            .iter()
            .any(|word| tools::TOOLSETS.contains(&word.as_str()) || selects_all(word, platform));
        match self {
            Self::Named(_) if words.iter().all(|word| word == NO_MCP) => true,
            Self::Named(_) => is_named,
            Self::Configured(_) => is_named || !names_any,
        }
    }
}

fn selects_all(word: &str, platform: &str) -> bool {
    ALL_TOOLSETS.contains(&word) || word.strip_prefix("hermes-") == Some(platform)
}

fn tool_entry(tool: &RegisteredTool) -> ToolEntry {
    ToolEntry {
        name: tool.name.as_str().to_owned(),
        original: tool.original_name().to_owned(),
        description: tool.description(),
    }
}

/// Whether a run with this list of toolsets needs a server.
pub fn needs_server(platform: &str, words: &[String], settings: &Settings, name: &str) -> bool {
    words.iter().any(|word| {
        let named = toolset::find_server(settings, word);
        selects_all(word, platform) || named.is_some_and(|server| server.as_str() == name)
    }) && words.iter().all(|word| word != NO_MCP)
}

/// Unknown names in a list of toolsets.
pub fn unknown_toolsets<'a>(
    settings: &Settings,
    platform: &str,
    words: &'a [String],
) -> Vec<&'a str> {
    let is_known = |word: &str| {
        word == NO_MCP
            || selects_all(word, platform)
            || tools::TOOLSETS.contains(&word)
            || toolset::find_server(settings, word).is_some()
    };
    words
        .iter()
        .map(String::as_str)
        .filter(|word| !is_known(word))
        .collect()
}
