// SPDX-License-Identifier: Apache-2.0
// The model of a run: its parameters are gathered from what its peers left on this machine.

#include <causeway/io/archive.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/parallel/elastic/block_store.hpp>
#include <causeway/train/checkpoint.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "generate.hpp"
#include "merge_adapters.hpp"
#include "path_layout.hpp"
#include "path_router.hpp"
#include "peer_folder.hpp"
#include "run_model.hpp"

namespace app {
namespace {

/// The newest checkpoint in any of `folders`; `otherwise` is where to look, for the error, if there is none.
causeway::result<causeway::io::loaded_checkpoint> newest_of(const std::vector<std::string>& folders,
                                                            const std::string& otherwise) {
  std::string best = otherwise;
  std::uint64_t newest = 0;
  for (const std::string& folder : folders) {
    const auto steps = causeway::io::checkpoint_directory{causeway::io::posix_storage{}, folder}.steps();
    if (!steps || steps->empty() || steps->back() <= newest) continue;
    newest = steps->back();
    best = folder;
  }
  return causeway::io::checkpoint_directory{causeway::io::posix_storage{}, best}.load_newest();
}

/// The newest checkpoint of any peer of the run; peers are tried from 0 on, after the parameters that they share.
causeway::result<causeway::io::loaded_checkpoint> newest_checkpoint(const std::string& folder) {
  std::vector<std::string> peers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
    if (entry.path().filename().string().starts_with("peer-")) peers.push_back(entry.path().string());
  }
  std::sort(peers.begin(), peers.end());
  peers.insert(peers.begin(), folder + "/shared");
  return newest_of(peers, folder + "/peer-0");
}

/// The parameters of the whole model from the folders of a pipeline's peers, all of which must be on this machine.
causeway::result<void> gather_stages(chosen_model& model, std::int64_t vocabulary, const settings& s) {
  CAUSEWAY_ASSIGN(const auto place, causeway::parallel::place_in(pipeline_options_of(s), 0, s.net.peers));
  auto& whole = model.parameters();
  for (const std::uint32_t peer : place.pipeline) {
    CAUSEWAY_ASSIGN(auto part, part_of_peer(s, peer));
    CAUSEWAY_ASSIGN(chosen_model stage, make_model(s, vocabulary, std::move(part)));
    const std::string own = run_folder(s) + "/peer-" + std::to_string(peer);
    auto loaded = newest_of({run_folder(s) + "/shared-" + std::to_string(peer), own}, own);
    if (!loaded) {
      loaded.error().message += "; it holds a stage of the model: bring the folders of all peers of a pipeline together";
      return loaded.error();
    }
    auto& held = stage.parameters();
    CAUSEWAY_TRY(causeway::restore_parameters(held, loaded->file, causeway::io::archiver{}));
    for (std::size_t i = 0; i < held.segments().size(); ++i) {
      const auto& from = held.segments()[i];
      const auto found = std::find_if(whole.segments().begin(), whole.segments().end(),
                                      [&](const auto& to) { return to.name == from.name; });
      const auto at = static_cast<std::size_t>(found - whole.segments().begin());
      std::copy_n(held.value(i), from.size(), whole.value(at));
    }
  }
  whole.touch();
  return {};
}

/// Where the parameters of a block begin in `numbers` numbers that were kept of it, of which it has `length`. They come
/// first. Where there are paths, the versions' own come last, each with a row of its outer optimizer; of swarms each
/// path's.
std::size_t version_in_block(const settings& s, std::uint32_t path, std::int64_t block, std::size_t numbers,
                             std::size_t length) {
  if (!trains_paths(s)) return 0;
  if (is_swarm(s)) return (numbers / length - (path_count(s) - path)) * length;
  const auto versions = path_versions(s);
  const std::uint32_t most = *std::max_element(versions.begin(), versions.end());
  return (numbers / length - 2 * (most - version_of(s, path, block))) * length;
}

/// The parameters of the whole model, or of a path, from the copies that peers with stages have made.
causeway::result<void> gather_blocks(chosen_model& model, const settings& s, std::uint32_t path = 0) {
  causeway::parallel::block_store store{causeway::io::any_storage{causeway::io::posix_storage{}}, block_folder(s)};
  CAUSEWAY_ASSIGN(const auto newest, store.newest(model.blocks()));
  if (!newest) {
    return causeway::fail(causeway::errc::not_found, block_folder(s),
                          "holds no step of which every block was saved; --parallel.store says where the blocks are");
  }
  for (std::int64_t b = 0; b < model.blocks(); ++b) {
    CAUSEWAY_ASSIGN(const auto contents, store.load(*newest, b));  // parameters first
    const auto part = causeway::parallel::blocks_in(model.parameters().values(), model.parameters().segments(), {b, b + 1},
                                                    model.blocks());
    const auto begin = version_in_block(s, path, b, contents.size(), part.size());
    std::copy_n(contents.begin() + static_cast<std::ptrdiff_t>(begin), part.size(), part.begin());
  }
  model.parameters().touch();
  return {};
}

/// The newest router of documents to paths that the first peer's folder has, or that of the next whose folder is here.
causeway::result<causeway::data::document_router> router_of_run(const settings& s) {
  for (std::uint32_t peer = 0; peer < s.net.peers; ++peer) {
    const std::string folder = run_folder(s) + "/peer-" + std::to_string(peer);
    auto kept = kept_router(folder, std::numeric_limits<std::uint64_t>::max());
    if (kept && fits(*kept, s)) return kept;
  }
  return causeway::fail(causeway::errc::not_found, run_folder(s),
                        "has no router of texts to paths; say which path writes with --sample.path");
}

/// The path that a text is sent to by `prefix` tokens from `first` on.
causeway::result<std::uint32_t> path_of_text(const settings& s, text_codec& codec, const std::vector<std::int32_t>& text,
                                             const causeway::data::document_router& router, std::int64_t first,
                                             std::int64_t prefix) {
  const std::vector<std::int64_t> firsts{first};
  CAUSEWAY_ASSIGN(const auto features,
                  features_of(s, codec.vocabulary(), causeway::data::token_stream{text}, firsts, prefix));
  return router.best(features);
}

/// The path that is asked for, or that the prompt is sent to.
causeway::result<std::uint32_t> path_of_prompt(const settings& s, text_codec& codec) {
  if (s.sample.path >= path_count(s))
    return causeway::fail(causeway::errc::invalid_argument, "sample.path",
                          "use 0 to " + std::to_string(path_count(s) - 1) + ", or -1");
  if (s.sample.path >= 0) return static_cast<std::uint32_t>(s.sample.path);
  CAUSEWAY_ASSIGN(const auto router, router_of_run(s));
  const std::vector<std::int32_t> prompt = text_so_far{codec, s}.tokens;
  return path_of_text(s, codec, prompt, router, 0, std::min<std::int64_t>(route_prefix(s), std::ssize(prompt)));
}

/// Of the peers that trained a path. Those of a fixed set need not be here.
std::vector<std::string> folders_of_path(std::uint32_t path, const settings& s) {
  std::vector<std::string> all;
  const auto folder = [&](std::uint32_t peer) { return run_folder(s) + "/peer-" + std::to_string(peer); };
  if (changes_peers(s)) {
    for (const sibling& peer : peers_on_disk(run_folder(s))) {
      const auto noted = noted_path(folder(peer.index));
      if (noted && *noted == path) all.push_back(folder(peer.index));
    }
    return all;
  }
  for (std::uint32_t peer = path; peer < s.net.peers; peer += path_count(s)) all.push_back(folder(peer));
  return all;
}

/// A path is a whole model, which each of its peers has, or peers with stages of all paths.
causeway::result<void> load_path(chosen_model& model, std::uint32_t path, const settings& s) {
  if (has_stages(s)) {
    std::fprintf(stderr, "path %u of %u\n", path, path_count(s));
    return gather_blocks(model, s, path);
  }
  const std::vector<std::string> folders = folders_of_path(path, s);
  if (folders.empty()) {
    return causeway::fail(causeway::errc::not_found, run_folder(s),
                          "has no folder of a peer that trained path " + std::to_string(path) + "; bring one here");
  }
  auto loaded = newest_of(folders, folders.front());
  if (!loaded) {
    loaded.error().message += "; path " + std::to_string(path) + " is the model of that peer: bring its folder here";
    return loaded.error();
  }
  std::fprintf(stderr, "path %u of %u\n", path, path_count(s));
  return causeway::restore_parameters(model.parameters(), loaded->file, causeway::io::archiver{});
}

}  // namespace

causeway::result<void> write_by_paths(const settings& s, text_codec& codec, const text_sink& to) {
  CAUSEWAY_TRY(codec.check_special());
  CAUSEWAY_ASSIGN(const auto router, router_of_run(s));
  text_so_far text{codec, s};
  text.tell(codec, to, false);
  std::map<std::uint32_t, chosen_model> models;
  CAUSEWAY_ASSIGN(std::uint32_t path, path_of_prompt(s, codec));
  for (auto left = s.sample.tokens; left > 0;) {
    if (models.count(path) == 0) {
      CAUSEWAY_ASSIGN(chosen_model model, make_model(s, codec.vocabulary()));
      CAUSEWAY_TRY(load_path(model, path, s));
      models.emplace(path, std::move(model));
    }
    const auto count = std::min(left, static_cast<std::int64_t>(s.comm.route_within));
    CAUSEWAY_TRY(models.at(path).extend(codec, s, to, text, count));
    left -= count;
    if (left == 0) break;  // to be sent somewhere costs a pass of the starting model
    const auto prefix = std::min<std::int64_t>(route_prefix(s), std::ssize(text.tokens));
    CAUSEWAY_ASSIGN(path, path_of_text(s, codec, text.tokens, router, std::ssize(text.tokens) - prefix, prefix));
  }
  text.tell(codec, to, true);
  return {};
}

causeway::result<chosen_model> trained_model(const settings& s, text_codec& codec) {
  if (has_experts(s)) {
    return causeway::fail(causeway::errc::unsupported, run_folder(s),
                          "has experts, which its servers hold; what is here is no whole model");
  }
  if (tunes_served(s)) {
    CAUSEWAY_ASSIGN(const auto tuned, newest_checkpoint(run_folder(s)));
    return merged_model(s, codec, tuned.file);
  }
  CAUSEWAY_ASSIGN(chosen_model model, make_model(s, codec.vocabulary()));
  if (trains_paths(s)) {
    CAUSEWAY_ASSIGN(const std::uint32_t path, path_of_prompt(s, codec));
    CAUSEWAY_TRY(load_path(model, path, s));
    return model;
  }
  if (has_stages(s)) {
    CAUSEWAY_TRY(s.fault.policy == "quorum" ? gather_blocks(model, s) : gather_stages(model, codec.vocabulary(), s));
    return model;
  }
  CAUSEWAY_ASSIGN(const auto loaded, newest_checkpoint(run_folder(s)));
  if (!loaded.note.empty()) std::fprintf(stderr, "%s\n", loaded.note.c_str());
  CAUSEWAY_TRY(causeway::restore_parameters(model.parameters(), loaded.file, causeway::io::archiver{}));
  return model;
}

}  // namespace app
