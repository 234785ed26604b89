// SPDX-License-Identifier: Apache-2.0
// The list of all settings, and the help text made of it.

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "command_line.hpp"
#include "option.hpp"
#include "page_server.hpp"
#include "pipeline_recoveries.hpp"
#include "policies.hpp"
#include "settings.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;

template <class T>
setting make(const char* name, T& value, const char* help, bool is_local = false) {
  return make_setting(name, value, help, is_local);
}

constexpr bool local = true;

}  // namespace

std::vector<setting> table(settings& s) {
  std::vector<setting> all{
      make("run.name", s.run.name, "name of the run; its files are in run.directory/run.name").also("name"),
      make("run.directory", s.run.directory, "folder that holds runs", local).also("directory"),
      make("run.seed", s.run.seed, "seed of everything random").also("seed"),
      make("run.branch", s.run.branch, "which founding of the run, where it was founded anew; empty = the first"),
      make("run.refound", s.run.refound,
           "found the run anew from what is on disk here, because too many members are gone for good (true|false)", local),
      make("run.fresh", s.run.fresh, "start over even if checkpoints of this run exist (true|false)", local).also("fresh"),
      make("run.journal", s.run.journal, "write all decisions of the membership to peer-N/journal.txt (true|false)")
          .also("journal"),
      make("run.restart", s.run.restart, "start a peer of this machine again when it dies; quorum only (true|false)", local)
          .also("restart"),
      make("run.preset", s.run.preset,
           "a published system: a policy of --comm, or a way to hold stages (`causeway train --help-all` lists both); what "
           "it sets can be set otherwise")
          .also("preset"),
      make("model.init", s.model.init,
           "train: a folder with config.json and safetensors, of transformers or causeway export, to start from; it says "
           "what "
           "the model is",
           local)
          .also("init"),
      make("model.start", s.model.start, "hash of the weights that all peers start from; set by model.init"),
      make("model.family", s.model.family, "gpt (GPT-2) or llama").also("family").one_of({"gpt", "llama"}),
      make("model.layers", s.model.layers, "transformer blocks").also("layers").in("blocks").at_least(1),
      make("model.heads", s.model.heads, "attention heads; must divide model.width").also("heads").in("heads").at_least(1),
      make("model.kv_heads", s.model.kv_heads, "key and value heads of llama; 0 = model.heads")
          .also("kv-heads")
          .in("heads")
          .at_least(0),
      make("model.width", s.model.width, "width of the residual stream").also("width").in("values").at_least(1),
      make("model.context", s.model.context, "tokens per sequence").also("context-length").in("tokens").at_least(1),
      make("model.hidden", s.model.hidden, "width of the feed-forward part; 0 = 4 widths (gpt), or 8/3 of them (llama)")
          .in("values")
          .at_least(0),
      make("model.vocabulary", s.model.vocabulary, "rows of the token table; 0 = as many as the tokenizer has tokens")
          .in("tokens")
          .at_least(0),
      make("model.epsilon", s.model.epsilon, "added to variances before they divide").above(0),
      make("model.theta", s.model.theta, "base of the rotary wavelengths of llama").above(0),
      make("model.rope_scaling", s.model.rope_scaling,
           "Llama 3.1's: factor, low and high frequency factor, original context, as 8,1,4,8192; empty = none"),
      make("model.tie", s.model.tie, "whether the output layer is the token table: true, false, or auto (gpt's is)")
          .one_of({"auto", "true", "false"}),
      make("model.dropout", s.model.dropout, "dropout rate of gpt, 0 to 1").also("dropout").at_least(0).below(1),
      make("model.precision", s.model.precision, "f32 or bf16 (f32 master weights)")
          .also("precision")
          .one_of({"f32", "bf16"}),
      make("model.recompute", s.model.recompute, "recompute each block in the backward pass to save memory (true|false)")
          .also("recompute"),
      make("data.path", s.data.path,
           "text in UTF-8, JSON lines (.jsonl) or token shards (.bin): a file, a folder, or several separated by commas",
           local)
          .also("data"),
      make("data.field", s.data.field, "the member of JSON lines that is the text"),
      make("data.token_type", s.data.token_type,
           "u16 or u32: what is in .bin files without a header, as nanoGPT writes them", local)
          .one_of({"", "u16", "u32"}),
      make("data.tokenizer", s.data.tokenizer,
           "bytes, bpe (trained on the text), model (that of model.init), or a folder with tokenizer.json, vocab.json and "
           "merges.txt, tokenizer.model, or tokenizer.bpe of causeway tokenize")
          .also("tokenizer")
          .one_of({"bpe", "bytes", "model", "folder"}),
      make("data.tokenizer_folder", s.data.tokenizer_folder, "the folder, where data.tokenizer is one; set by it", local),
      make("data.special", s.data.special,
           "take special tokens, such as <|endoftext|>, from text and prompts that spell them; for text that you trust "
           "(true|false)")
          .also("special"),
      make("data.vocabulary", s.data.vocabulary, "size of the bpe vocabulary").also("vocab-size").in("tokens"),
      make("data.validation", s.data.validation, "share of the text kept for validation, where it has no files of its own")
          .above(0)
          .below(1),
      make("data.validation_path", s.data.validation_path,
           "data to validate on, as data.path; empty = files with val in their names (val.bin), or a share of the others",
           local),
      make("data.shard_tokens", s.data.shard_tokens, "tokenize: tokens in a file", local)
          .in("tokens")
          .at_least(1)
          .up_to(std::numeric_limits<std::int32_t>::max()),
      make("train.steps", s.train.steps,
           "inner steps of each peer; quorum: in all, steps * batch * peers samples, whoever takes part")
          .also("steps")
          .in("steps")
          .at_least(1),
      make("train.batch", s.train.batch,
           "sequences per peer (or pipeline) and inner step; pipelines under quorum and swarms: of all together")
          .also("batch-size")
          .in("sequences")
          .at_least(1),
      make("train.micro_batches", s.train.micro_batches,
           "pieces that a batch is cut into: to save memory, or to keep all stages of a pipeline busy")
          .also("micro-batches")
          .in("pieces")
          .at_least(1),
      make("train.added_apart", s.train.added_apart,
           "micro-batches add finished gradients, with the bits of a site of as many ranks; takes one more buffer"),
      make("train.optimizer", s.train.optimizer,
           "inner optimizer: adamw, muon, or lamb for large batches; nadam or basis_rotation where gradients are late; sgd "
           "for demo; sparse_sgd or sparse_adam for stella_train")
          .also("optimizer")
          .one_of({"adamw", "muon", "lamb", "nadam", "basis_rotation", "sgd", "snoo", "dion", "sparse_sgd", "sparse_adam"}),
      make("train.learning_rate", s.train.learning_rate, "peak learning rate of the inner optimizer").also("lr").above(0),
      make("train.warmup", s.train.warmup, "steps to the peak").also("warmup-steps").in("steps"),
      make("train.final_fraction", s.train.final_fraction, "learning rate at the end, as a fraction of the peak")
          .at_least(0),
      make("train.weight_decay", s.train.weight_decay, "of matrices and embeddings").also("weight-decay").at_least(0),
      make("train.clip", s.train.clip, "largest norm of the gradient; 0 = no clipping").also("grad-clip").at_least(0),
      make("train.evaluate_every", s.train.evaluate_every, "steps between validations (at the next committed round)")
          .also("eval-every")
          .in("steps"),
      make("train.evaluate_tokens", s.train.evaluate_tokens, "validation tokens, over all peers").in("tokens"),
      make("train.checkpoint_every", s.train.checkpoint_every, "steps between checkpoints (at the next committed round)")
          .also("save-every")
          .in("steps"),
      make("parallel.policy", s.parallel.policy,
           "data: every peer holds the model; pipeline: peers hold stages of it; async_pipeline: and no stage waits for a "
           "step to end; swarm: and every micro-batch takes its own way through them; experts: peers hold all but the "
           "experts, which servers train; served: servers hold a frozen model, and peers what tunes it")
          .also("parallel")
          .one_of({"data", "pipeline", "async_pipeline", "swarm", "experts", "served"}),
      make(
          "parallel.stages", s.parallel.stages,
          "stages, each at a peer of one pipeline (chunks cut it further), or at several of a swarm; pipeline: must divide "
          "net.peers; 0 = all peers; quorum: 0 = 2")
          .also("stages"),
      make("parallel.router", s.parallel.router,
           "swarm: who gets a micro-batch: least_load (SWARM), random, min_cost_flow (GWTF), peer_flow (as its peers find "
           "it), or planned (SkipPipe): as parallel.paths says")
          .one_of({"least_load", "random", "min_cost_flow", "peer_flow", "planned"}),
      make("parallel.paths", s.parallel.paths,
           "swarm: paths that micro-batches take in turn, as \"0 5 - 3; 0 - 6 3\": for each stage the number of a peer, * "
           "for any of the stage, - where it is left out; `causeway plan --skip` writes some"),
      make("parallel.stage", s.parallel.stage, "swarm: the stage that this peer serves; -1 = where it is needed most",
           local)
          .at_least(-1),
      make("parallel.rebalance_every", s.parallel.rebalance_every,
           "swarm: seconds after which an idle peer may be asked to serve another stage; 0 = never")
          .in("seconds"),
      make("parallel.schedule", s.parallel.schedule,
           "pipeline: 1f1b, gpipe, interleaved, zero_bubble, zero_bubble_h2, zero_bubble_v, chimera, dual_pipe, varuna, "
           "crosspipe, or eager (1f1b, but what is ready runs first)")
          .also("schedule")
          .one_of({"1f1b", "gpipe", "interleaved", "zero_bubble", "zero_bubble_h2", "zero_bubble_v", "chimera", "dual_pipe",
                   "varuna", "crosspipe", "eager"}),
      make("parallel.codec", s.parallel.codec,
           "pipeline, swarm: what crosses stages: none (f32), fp16, bf16, int8, dynamic_int8 (SWARM), ..., delta_int4 or "
           "delta_int2 (AQ-SGD), "
           "top_k (FusionLLM), subspace (Protocol Models)")
          .one_of({"none", "fp16", "bf16", "int8", "dynamic_int8", "sigma_int8", "e3m0", "int4", "int2", "delta_int4",
                   "delta_int2", "top_k", "subspace"}),
      make("parallel.ratio", s.parallel.ratio, "of the codec top_k: how many times fewer bytes than f32 it sends")
          .at_least(1),
      make("parallel.directions", s.parallel.directions,
           "of the codec subspace: along how many directions blocks write into the residual stream; 0 = half of "
           "model.width, at most 64")
          .at_least(0),
      make("parallel.cuts", s.parallel.cuts,
           "pipeline: the first block of every stage but the first, as 3,7; empty = evenly; `causeway plan` says which")
          .in("blocks"),
      make("parallel.random_routes", s.parallel.random_routes,
           "pipeline: pair the stages of its replicas anew for every micro-batch, at random (NoLoCo)"),
      make("parallel.stashing", s.parallel.stashing,
           "async_pipeline: keep the parameters of each forward for its backward (PipeDream)"),
      make("parallel.ahead", s.parallel.ahead,
           "async_pipeline: micro-batches in flight on each boundary besides one; hides latency, delays gradients")
          .up_to(65535),
      make("parallel.recovery", s.parallel.recovery,
           "pipeline under quorum: regroup, redundant, redundant_forward, templates, morph, proactive, reroute, "
           "neighbour_init (CheckFree) or swapped_neighbours (CheckFree+); what becomes of a lost peer's stage")
          .one_of(recovery_names()),
      make("parallel.neighbour_rate", s.parallel.neighbour_rate,
           "neighbour_init, swapped_neighbours: multiplies the learning rate of a stage that was made up, from then on")
          .at_least(0),
      make("parallel.neighbour_weights", s.parallel.neighbour_weights,
           "neighbour_init, swapped_neighbours: how much a neighbour counts, by its gradient; squared_norms is the "
           "paper's, clipped_norms the authors' code's")
          .one_of({"squared_norms", "clipped_norms"}),
      make("parallel.store", s.parallel.store,
           "pipeline under quorum, swarm: a folder that all peers reach, for copies of the stages; empty = blocks in the "
           "run's",
           local),
      make("comm.policy", s.comm.policy,
           "when peers talk and what they send; `causeway train --help-all` lists what there is")
          .also("comm")
          .one_of(policy_names()),
      make("comm.local_steps", s.comm.local_steps, "inner steps between exchanges (H); swarm: of the peers of a stage")
          .also("local-steps")
          .in("steps")
          .at_least(1),
      make("comm.outer_learning_rate", s.comm.outer_learning_rate, "of the outer optimizer (noloco: beta)")
          .also("outer-lr")
          .at_least(0),
      make("comm.outer_momentum", s.comm.outer_momentum, "of the outer optimizer (noloco: alpha)")
          .also("outer-momentum")
          .at_least(0),
      make("comm.codec", s.comm.codec,
           "what travels: none (f32), fp16, bf16, int8, dynamic_int8, sigma_int8, e3m0, int4, int2 or sign")
          .also("codec")
          .one_of({"none", "fp16", "bf16", "int8", "dynamic_int8", "sigma_int8", "e3m0", "int4", "int2", "sign"}),
      make("comm.overlap_steps", s.comm.overlap_steps, "inner steps that an exchange may take meanwhile")
          .also("overlap-steps")
          .in("steps"),
      make("comm.local_share", s.comm.local_share, "share of the live parameters when its result is blended in"),
      make("comm.fragment_blocks", s.comm.fragment_blocks, "transformer blocks in a fragment").in("blocks"),
      make("comm.fragments", s.comm.fragments, "fragments of the model, of equal size").in("fragments"),
      make("comm.sparse_k", s.comm.sparse_k,
           "values sent of each tile of 64 by 64, or of 64 of a vector (cocktail_sgd: of each 4,096)")
          .in("values"),
      make("comm.error_decay", s.comm.error_decay, "of what was not sent, from round to round"),
      make("comm.over_all", s.comm.over_all, "the mean of a value is over all peers, not over those who sent it"),
      make("comm.clips", s.comm.clips, "tensors longer than the median of all peers' are scaled down to it"),
      make("comm.share", s.comm.share, "share of the values that are looked at, or of the peers that are asked"),
      make("comm.group_size", s.comm.group_size, "peers that meet").in("peers"),
      make("comm.dimensions", s.comm.dimensions, "of the grid of peers"),
      make("comm.measure_every", s.comm.measure_every, "until peers measure their links again; 0 = never").in("exchanges"),
      make("comm.auxiliary", s.comm.auxiliary,
           "above twice as many waiting for a line, messages go by third peers where fewer wait; 0 = never")
          .in("messages"),
      make("comm.message_bytes", s.comm.message_bytes, "netstorm: of a message, which goes by one path")
          .in("bytes")
          .at_least(1),
      make("comm.rank", s.comm.rank, "of the factors that a matrix is sent as"),
      make("comm.batch_samples", s.comm.batch_samples, "samples of all peers together in a step").in("samples"),
      make("comm.seconds", s.comm.seconds, "of training between exchanges, by each peer's clock").in("seconds"),
      make("comm.fewest_steps", s.comm.fewest_steps, "of all peers together, for an exchange").in("steps"),
      make("comm.quorum", s.comm.quorum, "pushes that move the shared parameters, at least").in("pushes"),
      make("comm.most_ahead", s.comm.most_ahead, "a peer that has made so many more than the slowest waits").in("steps"),
      make("comm.paths", s.comm.paths,
           "versions of each level of blocks, as 2,2, of which a path has one each; empty = two levels, a path for each "
           "peer, or pipeline"),
      make("comm.route_prefix", s.comm.route_prefix,
           "first tokens of a document that say which path it is for; half of model.context at most")
          .in("tokens"),
      make("comm.route_top", s.comm.route_top, "paths that train on a document; above 1, their shards overlap").in("paths"),
      make(
          "comm.route_again", s.comm.route_again,
          "steps after which a router is trained on which path predicts documents best, and sorts them anew, whole rounds; "
          "0 = never")
          .in("steps"),
      make("comm.route_within", s.comm.route_within,
           "validation, and causeway generate: tokens after which a text is sent to a path anew, by its last "
           "comm.route_prefix; 0 = never")
          .in("tokens"),
      make("fault.policy", s.fault.policy,
           "fail_stop: any failure ends the run; restart: all go on from their newest checkpoints; quorum: peers may come "
           "and go")
          .also("fault")
          .one_of({"fail_stop", "restart", "quorum"}),
      make("fault.restarts", s.fault.restarts,
           "restart: attempts in a row that get no further, after which the error stands; 0 = the first failure ends it",
           local)
          .in("attempts"),
      make("fault.min_peers", s.fault.min_peers, "quorum: a round is made by at least so many peers")
          .also("min-peers")
          .in("peers")
          .at_least(1),
      make("fault.store_every", s.fault.store_every, "quorum: rounds between copies on disk; 0 = none, memory only")
          .in("rounds"),
      make(
          "fault.notice", s.fault.notice,
          "pipeline: from SIGTERM on, the most that a peer may take to end its step and to hand over what it holds; 0 = it "
          "hands over nothing, and waits a second",
          local)
          .in("seconds"),
      make("net.peers", s.net.peers, "peers in the run").also("peers").in("peers").at_least(1),
      make("net.listen", s.net.listen, "HOST:PORT to wait for peers at; empty = start all peers on this machine", local)
          .also("listen"),
      make("net.announce", s.net.announce,
           "HOST or HOST:PORT under which others reach this peer, where that is not where it listens: behind a router that "
           "forwards a port",
           local)
          .also("announce"),
      make("net.join", s.net.join, "HOST:PORT of a peer of the run", local).also("join"),
      make("net.static_peers", s.net.static_peers, "HOST:PORT of all peers in order, instead of a rendezvous"),
      make("net.index", s.net.index, "this peer's wanted place; -1 = any", local).also("index").at_least(-1),
      make("net.region", s.net.region, "ravnest, halos and gaia_asp, quorum: this peer's region; -1 = the smallest", local)
          .at_least(-1),
      make("net.threads", s.net.threads, "compute threads of this peer; 0 = share the cores", local)
          .also("threads")
          .in("threads"),
      make(
          "net.sites", s.net.sites,
          "sites that the ranks of this MPI job form, by host: the first rank of each is a peer and the others compute for "
          "it; 0 = each rank is a peer",
          local)
          .also("sites"),
      make("net.site_of", s.net.site_of, "the site of each rank, as 0,0,1,1, where hosts do not say it", local)
          .also("site-of"),
      make("net.same_bits", s.net.same_bits, "sums over MPI have the bits of any network, instead of what is quicker"),
      make("net.streams", s.net.streams, "TCP streams per link; 0 = choose", local).also("streams").in("streams"),
      make("net.shared_memory", s.net.shared_memory,
           "large messages to peers on this machine go through shared memory (true|false)", local),
      make("net.patience", s.net.patience, "seconds to go on dialling while nobody answers", local)
          .also("patience")
          .in("seconds"),
      make("sample.prompt", s.sample.prompt, "text to go on from").also("prompt"),
      make("sample.tokens", s.sample.tokens, "tokens to generate").also("tokens").in("tokens").at_least(0),
      make("sample.temperature", s.sample.temperature, "0 = always the likeliest").also("temperature").at_least(0),
      make("sample.top_k", s.sample.top_k, "choose among the k likeliest; 0 = all").also("top-k").in("tokens").at_least(0),
      make("sample.top_p", s.sample.top_p, "choose among the likeliest that have this share of the probability; 1 = all")
          .also("top-p")
          .above(0)
          .up_to(1),
      make("sample.path", s.sample.path,
           "of a run whose peers train paths: which one writes; -1 = where the prompt is sent to")
          .at_least(-1),
      make("export.format", s.out.format,
           "huggingface, a folder for transformers; gguf, a file for llama.cpp; auto = by the name's end", local)
          .also("format")
          .one_of({"auto", "huggingface", "gguf"}),
      make("export.type", s.out.type,
           "what weights are written as: f32, or bf16 or f16, which round and take half, or in GGUF q8_0: a quarter", local)
          .also("dtype")
          .one_of({"f32", "bf16", "f16", "q8_0"}),
      make("sim.links", s.sim.links, "simulate: CSV of links between regions; empty = all alike", local).also("links"),
      make("sim.faults", s.sim.faults,
           "simulate: none, random, harsh, datacentre, hostile, swizzle, or a file .toml, .csv, .txt", local)
          .also("faults"),
      make("sim.compute", s.sim.compute, "simulate: real (train the model) or model (a stand-in; only its cost counts)",
           local)
          .one_of({"real", "model"}),
      make("sim.flops", s.sim.flops, "simulate: speed of a peer in floating-point operations per second", local)
          .in("operations per second")
          .above(0),
      make("sim.step_seconds", s.sim.step_seconds, "simulate: duration of an inner step; 0 = from sim.flops", local)
          .in("seconds")
          .at_least(0),
      make("sim.parameters", s.sim.parameters, "simulate: size of the stand-in, which is what travels", local)
          .in("parameters")
          .at_least(1),
      make("sim.mbit_per_s", s.sim.mbit_per_s, "simulate: of each peer's access line, both directions", local)
          .in("Mbit/s")
          .above(0),
      make("sim.latency_ms", s.sim.latency_ms, "simulate: one way, where sim.links says nothing", local)
          .in("milliseconds")
          .at_least(0),
      make("sim.horizon", s.sim.horizon, "simulate: seconds that faults go on; 0 = as long as a run without them", local)
          .in("seconds")
          .at_least(0),
      make("sim.seeds", s.sim.seeds, "simulate: how many seeds, from run.seed on", local).also("seeds").at_least(1),
      make("sim.history", s.sim.history, "simulate: file for the events of the membership, and what peers log", local)
          .also("history"),
      make("watch.page", s.watch.page,
           "PORT or HOST:PORT at which a browser sees the run while it trains; a port alone is for this machine only",
           local)
          .also("page"),
      make("watch.tensorboard", s.watch.tensorboard, "write TensorBoard's event files into peer-N, too (true|false)", local)
          .also("tensorboard"),
      make("quiet", s.quiet, "no progress line (true|false)", local),
  };
  std::vector<setting> more = server_table(s);
  const auto behind =
      std::find_if(all.begin(), all.end(), [](const setting& one) { return one.name.starts_with("comm."); });
  all.insert(behind, std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

}  // namespace app
