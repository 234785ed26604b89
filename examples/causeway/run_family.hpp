// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_FAMILY_HPP
#define CAUSEWAY_EXAMPLES_RUN_FAMILY_HPP

// A run of one model family with a fixed set of peers. Included by the file of that family alone: it instantiates much.

#include <causeway/parallel/block_moves.hpp>
#include <causeway/parallel/block_store.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "chosen_model.hpp"
#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "generate.hpp"
#include "policies.hpp"
#include "run_model.hpp"
#include "run_pipeline.hpp"
#include "run_trainer.hpp"

namespace app {

template <class Model>
void describe(Model& model, const session_input& in) {
  if (in.s.quiet) return;
  const bool local = in.s.comm.policy != "every_step";
  const auto optimizer_bytes = static_cast<std::size_t>(model.parameters().length()) * sizeof(float) * (local ? 4U : 2U);
  const auto estimate = model.memory_estimate(in.s.train.batch / in.s.train.micro_batches);
  const auto human = [](std::size_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  std::string held;
  if (!model.part().is_whole(model.blocks())) {
    for (const auto& r : model.part().ranges(model.blocks())) held += ", blocks " + model.part().text(r);
    held += " of " + std::to_string(model.blocks()) + " here";
  }
  std::printf("%s%s: %lld parameters, %s; %s\n", in.s.model.family.c_str(), held.c_str(),
              static_cast<long long>(model.parameters().count()), in.s.model.precision.c_str(),
              model.backend().describe().c_str());
  std::printf(
      "memory of this peer: about %s (parameters and gradients %s, optimizers and outer state %s, activations %s)\n",
      human(estimate.total() + optimizer_bytes).c_str(),
      human(estimate.parameters + estimate.gradients + estimate.low_precision).c_str(), human(optimizer_bytes).c_str(),
      human(estimate.activations + estimate.activation_gradients + estimate.logits + estimate.scratch).c_str());
  std::printf("text: %s, %lld tokens to train on, %lld to validate; %u peers, %s\n",
              human_bytes(static_cast<double>(in.data.bytes)).c_str(), static_cast<long long>(in.data.tokens.train.size()),
              static_cast<long long>(in.data.tokens.validation.size()), in.s.net.peers, in.s.comm.policy.c_str());
  std::fflush(stdout);
}

template <class Model>
causeway::result<session_summary> run_family(const typename Model::options_type& options, session_input& in,
                                             causeway::environment env) {
  causeway::nn::model_part part;
  if (is_pipeline(in.s)) {
    CAUSEWAY_ASSIGN(part, part_of_peer(in.s, env.transport.self()));
  }
  CAUSEWAY_ASSIGN(Model model, make_model<Model>(options, in.s, part));
  describe(model, in);
  if (is_pipeline(in.s)) return train_pipeline(chosen_model::of(std::move(model)), in, std::move(env));
  const policy* const chosen = find_policy(in.s.comm.policy);
  if (chosen->train != nullptr) return chosen->train(chosen_model::of(std::move(model)), in, std::move(env));
  return with_comm(in.s, [&](auto comm) {
    causeway::parallel::data_parallel parallel{{.micro_batches = in.s.train.micro_batches}};
    return run_trainer(causeway::make_trainer(std::move(model), std::move(env), trainer_options_of(in.s), inner_of(in.s),
                                              std::move(comm), std::move(parallel)),
                       in);
  });
}

/// The newest checkpoint in any of `folders`; `otherwise` is where to look, for the error, if there is none.
inline causeway::result<causeway::io::loaded_checkpoint> newest_of(const std::vector<std::string>& folders,
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
inline causeway::result<causeway::io::loaded_checkpoint> newest_checkpoint(const std::string& folder) {
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
template <class Model>
causeway::result<void> gather_stages(Model& model, const typename Model::options_type& options, const settings& s) {
  CAUSEWAY_ASSIGN(const auto place, causeway::parallel::place_in(pipeline_options_of(s), 0, s.net.peers));
  auto& whole = model.parameters();
  for (const std::uint32_t peer : place.pipeline) {
    CAUSEWAY_ASSIGN(auto part, part_of_peer(s, peer));
    CAUSEWAY_ASSIGN(Model stage, make_model<Model>(options, s, std::move(part)));
    const std::string own = run_folder(s) + "/peer-" + std::to_string(peer);
    auto loaded = newest_of({run_folder(s) + "/shared-" + std::to_string(peer), own}, own);
    if (!loaded) {
      loaded.error().message += "; it holds a stage of the model: bring the folders of all peers of a pipeline together";
      return loaded.error();
    }
    auto& held = stage.parameters();
    CAUSEWAY_TRY(causeway::restore_parameters(held, loaded->file, causeway::io::cereal_archiver{}));
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

/// The parameters of the whole model from the copies that peers with stages have made.
template <class Model>
causeway::result<void> gather_blocks(Model& model, const settings& s) {
  causeway::parallel::block_store store{causeway::io::any_storage{causeway::io::posix_storage{}}, block_folder(s)};
  CAUSEWAY_ASSIGN(const auto newest, store.newest(model.blocks()));
  if (!newest) {
    return causeway::fail(causeway::errc::not_found, block_folder(s),
                          "holds no step of which every block was saved; --parallel.store says where the blocks are");
  }
  const std::size_t kinds = 1 + inner_of(s).moments().size();
  for (std::int64_t b = 0; b < model.blocks(); ++b) {
    std::vector<float> contents(static_cast<std::size_t>(model.block_length(b)) * kinds);
    CAUSEWAY_TRY(store.load(*newest, b, contents));
    const auto part = causeway::parallel::blocks_in(model.parameters().values(), model.parameters().segments(), {b, b + 1},
                                                    model.blocks());
    std::copy_n(contents.begin(), part.size(), part.begin());
  }
  model.parameters().touch();
  return {};
}

template <class Model>
causeway::result<std::string> generate_family(const typename Model::options_type& options, const settings& s,
                                              text_codec& codec) {
  CAUSEWAY_ASSIGN(Model model, make_model<Model>(options, s));
  if (has_stages(s)) {
    CAUSEWAY_TRY(s.fault.policy == "quorum" ? gather_blocks(model, s) : gather_stages(model, options, s));
    return sample_text(model, codec, s);
  }
  CAUSEWAY_ASSIGN(const auto loaded, newest_checkpoint(run_folder(s)));
  if (!loaded.note.empty()) std::fprintf(stderr, "%s\n", loaded.note.c_str());
  CAUSEWAY_TRY(causeway::restore_parameters(model.parameters(), loaded.file, causeway::io::cereal_archiver{}));
  return sample_text(model, codec, s);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_FAMILY_HPP
