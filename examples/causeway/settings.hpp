// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SETTINGS_HPP
#define CAUSEWAY_EXAMPLES_SETTINGS_HPP

// Everything that a run can be told, with defaults; where each value came from; and the texts that carry it: flags, a TOML
// file, environment variables. Precedence: default < file < environment < flag.

#include <causeway/core/result.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace app {

struct command_line;
struct setting;

struct settings {
  struct {
    std::string name = "causeway";
    std::string directory = "runs";
    std::uint64_t seed = 1;
    std::string branch;
    bool fresh = false;
    bool refound = false;
    bool journal = false;
    bool restart = false;
    std::string preset;
  } run;

  struct {
    std::string init;
    std::string start;
    std::string family = "gpt";
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t kv_heads = 0;
    std::int64_t width = 128;
    std::int64_t context = 128;
    std::int64_t hidden = 0;
    std::int64_t vocabulary = 0;
    float epsilon = 1e-5F;
    float theta = 10000;
    std::vector<float> rope_scaling;
    std::string tie = "auto";
    float dropout = 0;
    std::string precision = "f32";
    bool recompute = false;
  } model;

  struct {
    std::string policy = "data";
    std::uint32_t stages = 0;
    std::string schedule = "1f1b";
    std::string codec = "none";
    double ratio = 100;
    std::int64_t directions = 0;
    std::vector<std::int64_t> cuts;
    bool random_routes = false;
    bool stashing = true;
    std::uint32_t ahead = 0;
    std::string recovery = "regroup";
    float neighbour_rate = 1.1F;
    std::string neighbour_weights = "squared_norms";
    std::string store;
    std::string router = "least_load";
    std::string paths;
    std::int64_t stage = -1;
    std::uint32_t rebalance_every = 300;
  } parallel;

  // Of processes that hold parts of the model for the peers.
  struct {
    std::vector<std::string> at;
    std::uint32_t here = 2;
    std::uint32_t part = 0;
    std::uint32_t parts = 1;
    std::int64_t blocks = 0;
  } servers;

  struct {
    std::vector<std::uint32_t> sides{4, 4};
    std::uint32_t chosen = 4;
    float learning_rate = 1e-3F;
  } experts;

  struct {
    std::int64_t prompts = 0;
    bool deep = true;
    std::int64_t rank = 8;
    float alpha = 16;
    std::vector<std::string> maps{"query", "value"};
  } tune;

  struct {
    std::string path;
    std::string tokenizer = "bpe";
    std::int64_t vocabulary = 1024;
    double validation = 0.05;
    std::string validation_path;
    std::string field = "text";
    bool special = false;
    std::string token_type;
    std::string tokenizer_folder;
    std::int64_t shard_tokens = 100'000'000;
  } data;

  struct {
    std::uint64_t steps = 600;
    std::int64_t batch = 8;
    std::int64_t micro_batches = 1;
    bool added_apart = false;
    std::string optimizer = "adamw";
    float learning_rate = 2e-3F;
    std::uint64_t warmup = 50;
    float final_fraction = 0.1F;
    float weight_decay = 0.1F;
    float clip = 1.0F;
    std::uint64_t evaluate_every = 50;
    std::int64_t evaluate_tokens = 32768;
    std::uint64_t checkpoint_every = 100;
  } train;

  struct {
    std::string policy = "diloco";
    std::uint32_t local_steps = 50;
    float outer_learning_rate = 0.7F;
    float outer_momentum = 0.9F;
    std::string codec = "none";
    // Each of the following is for some policies alone, which have their own defaults: policies.cpp.
    std::uint32_t overlap_steps = 0;
    float local_share = 0;
    std::uint32_t fragment_blocks = 0;
    std::uint32_t fragments = 0;
    std::uint32_t sparse_k = 0;
    float error_decay = 0;
    bool over_all = false;
    bool clips = false;
    double share = 0;
    std::uint32_t group_size = 0;
    std::uint32_t dimensions = 0;
    std::uint32_t measure_every = 0;
    std::uint32_t auxiliary = 0;
    std::uint64_t message_bytes = 4'000'000;
    std::uint32_t rank = 0;
    std::uint64_t batch_samples = 0;
    double seconds = 0;
    std::uint64_t fewest_steps = 0;
    std::uint32_t quorum = 0;
    std::uint32_t most_ahead = 0;
    std::vector<std::uint32_t> paths;
    std::int64_t route_prefix = 0;
    std::uint32_t route_top = 0;
    std::uint64_t route_again = 0;
    std::uint64_t route_within = 0;
  } comm;

  struct {
    std::string policy = "fail_stop";
    std::uint32_t restarts = 3;
    std::uint32_t min_peers = 1;
    std::uint32_t store_every = 1;
    std::uint32_t notice = 0;
  } fault;

  struct {
    std::uint32_t peers = 1;
    std::string listen;
    std::string announce;
    std::string join;
    std::vector<std::string> static_peers;
    std::int64_t index = -1;
    std::int64_t region = -1;
    unsigned threads = 0;
    std::uint32_t sites = 0;  // of an MPI job; 0: none, each rank is a peer
    bool same_bits = false;   // of sums over MPI, as over any other network
    std::string site_of;      // the site of each rank, with commas; empty: by host
    std::uint32_t streams = 0;
    bool shared_memory = true;
    std::uint32_t patience = 60;
  } net;

  struct {
    std::string prompt = "And ";
    std::int64_t tokens = 200;
    float temperature = 0.8F;
    std::int64_t top_k = 40;
    float top_p = 1;
    std::int64_t path = -1;
  } sample;

  struct {
    std::string format = "auto";
    std::string type = "f32";
  } out;

  struct {
    std::string links;
    std::string faults;
    std::string compute = "real";
    double flops = 1e12;
    double step_seconds = 0;
    std::int64_t parameters = 4096;
    double mbit_per_s = 1000;
    double latency_ms = 1;
    double horizon = 0;
    std::uint64_t seeds = 1;
    std::string history;
  } sim;

  struct {
    std::string page;
    bool tensorboard = false;
  } watch;

  bool quiet = false;  ///< no progress line: set for the peers that a launcher starts
};

/// Pipelines without a flush, whose stages update on their own.
[[nodiscard]] inline bool is_async_pipeline(const settings& s) { return s.parallel.policy == "async_pipeline"; }
/// Whether peers hold stages of the model, in pipelines.
[[nodiscard]] inline bool is_pipeline(const settings& s) { return s.parallel.policy == "pipeline" || is_async_pipeline(s); }
/// And come and go.
[[nodiscard]] inline bool is_elastic_pipeline(const settings& s) { return is_pipeline(s) && s.fault.policy == "quorum"; }
/// Or every micro-batch takes its own way through the peers of each stage.
[[nodiscard]] inline bool is_swarm(const settings& s) { return s.parallel.policy == "swarm"; }
/// Peers hold stages, and come and go: one batch is of all of them.
[[nodiscard]] inline bool shares_batches(const settings& s) { return is_elastic_pipeline(s) || is_swarm(s); }
/// Whether stages take steps on their own: those of a swarm or of pipelines that come and go, between exchanges, or all of
/// an async_pipeline.
[[nodiscard]] bool steps_alone(const settings& s);

/// Pipelines whose first peer has both ends of the model.
[[nodiscard]] bool joins_ends(const settings& s);
/// Pipelines that come and go and exchange gradients in every step, by a policy that does more than add them up.
[[nodiscard]] bool exchanges_gradients(const settings& s);
/// Whether first and last stage must not share a table: each would move it by a part of what moves it, or in its own way.
[[nodiscard]] bool shares_no_table(const settings& s);
[[nodiscard]] inline bool has_stages(const settings& s) { return is_pipeline(s) || is_swarm(s); }

/// Every peer holds the model but its experts, or of a frozen one no more than what it tunes: servers hold the rest.
[[nodiscard]] inline bool has_experts(const settings& s) { return s.parallel.policy == "experts"; }
[[nodiscard]] inline bool tunes_served(const settings& s) { return s.parallel.policy == "served"; }
[[nodiscard]] inline bool has_servers(const settings& s) { return has_experts(s) || tunes_served(s); }
/// Stages of each pipeline whose peers come and go, where parallel.recovery does not choose their number.
[[nodiscard]] std::int64_t stages_wanted(const settings& s);
/// Of peers that come and go, if all are there: how many pipelines of so many stages they make, at least one.
[[nodiscard]] std::uint32_t pipelines_of(const settings& s);
/// A sentence on peers of elastic pipelines that would only be spare: a pipeline needs a micro-batch. Empty: none.
[[nodiscard]] std::string idle_peers(const settings& s);

/// The folder of a run.
[[nodiscard]] inline std::string run_folder(const settings& s) { return s.run.directory + "/" + s.run.name; }

/// All settings of `s`, in the order of the help. The table refers to `s`.
std::vector<setting> table(settings& s);
/// Of these, those of servers and of what they serve.
std::vector<setting> server_table(settings& s);

/// Where values came from: setting name → "default", "run.toml:3", "CAUSEWAY_MODEL_LAYERS", "--model.layers".
using origins = std::map<std::string, std::string>;

/// Reads `@file.toml`, environment and flags into `s`, in order of precedence.
causeway::result<void> take_settings(const command_line& line, settings& s, origins& from);

/// Gives the settings that nobody set (`from`) the values that the chosen policy has by itself.
void take_policy_defaults(settings& s, const origins& from);

/// Checks what a wrong value can be told from without touching data or network.
causeway::result<void> validate(const settings& s);

/// The same of peers whose servers hold a part of the model.
causeway::result<void> validate_servers(const settings& s);

/// Whether run.name can be a folder in run.directory: one path component that is not hidden. To be asked before any path is
/// made of it, above all of a name that another peer told.
causeway::result<void> check_run_name(const settings& s);

/// The settings as TOML; `shared_only` leaves out what is a matter of one machine.
std::string to_toml(settings& s, bool shared_only);

/// Takes over from the TOML of a run what nobody set here (`from`): for a command that is told only which run it is about.
causeway::result<void> fill_in(settings& s, const origins& from, std::string_view text, const std::string& where);

/// The settings of this machine that differ from the defaults, as flags: for the peers that a launcher starts. Without
/// those that are the launcher's own business, such as run.fresh and net.listen.
std::vector<std::string> local_flags(settings& s);

/// Sets from TOML text; `where` names it in errors.
causeway::result<void> apply_toml(std::string_view text, const std::string& where, settings& s, origins& from);

/// A setting that has another value than it had: its name, and "is 3, and was 2".
struct changed_setting {
  std::string name, values;
};
changed_setting change_of(const setting& now, const setting& then);

/// The first setting that all peers share and that has another value in `now` than in `then`.
std::optional<changed_setting> first_change(settings now, settings then);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SETTINGS_HPP
