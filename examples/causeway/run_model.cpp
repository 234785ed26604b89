// SPDX-License-Identifier: Apache-2.0
#include "run_model.hpp"

#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>

#include <cstdio>
#include <string>
#include <utility>

#include "chosen_pipeline.hpp"
#include "mpi_job.hpp"
#include "noted_round.hpp"
#include "policies.hpp"
#include "remote_model.hpp"
#include "report.hpp"
#include "starting_model.hpp"
#include "swarm_place.hpp"

namespace app {
namespace {

void describe(chosen_model& model, const session_input& in) {
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
              model.computes_on().c_str());
  std::printf(
      "memory of this peer: about %s (parameters and gradients %s, optimizers and outer state %s, activations %s)\n",
      human(estimate.total() + optimizer_bytes).c_str(),
      human(estimate.parameters + estimate.gradients + estimate.low_precision).c_str(), human(optimizer_bytes).c_str(),
      human(estimate.activations + estimate.activation_gradients + estimate.logits + estimate.scratch).c_str());
  std::printf("text: %s, %lld tokens to train on, %lld to validate; %s, %s\n",
              human_bytes(static_cast<double>(in.data.bytes)).c_str(), static_cast<long long>(in.data.tokens.train.size()),
              static_cast<long long>(in.data.tokens.validation.size()), counted(in.s.net.peers, "peer").c_str(),
              in.s.comm.policy.c_str());
  std::fflush(stdout);
}

/// What this peer holds when the run begins.
causeway::result<causeway::nn::model_part> first_part(const training& t) {
  const settings& s = t.in.s;
  if (t.place == nullptr) return is_pipeline(s) ? part_of_peer(s, t.env.transport.self()) : causeway::nn::model_part{};
  if (t.place->pipelines != nullptr) return causeway::nn::model_part{{0, 1}};  // until it knows who else is there
  if (t.place->swarm != nullptr) return causeway::nn::model_part{blocks_of(s, t.place->swarm->peer()->options().stage)};
  return causeway::nn::model_part{};
}

/// Whether the parameters that this peer begins with do not matter: it goes on from a checkpoint, or gets the others'
/// state.
bool state_comes(const training& t) {
  if (t.place != nullptr) return !has_stages(t.in.s);
  const std::string mine = t.in.folder + "/peer-" + std::to_string(t.env.transport.self());
  const auto steps = causeway::io::checkpoint_directory{causeway::io::posix_storage{}, mine}.steps();
  return steps && !steps->empty();
}

}  // namespace

causeway::result<session_summary> run_model(training t) {
  CAUSEWAY_ASSIGN(auto part, first_part(t));
  CAUSEWAY_ASSIGN(chosen_model model, has_servers(t.in.s)
                                          ? make_remote_model(t.in)
                                          : make_model(t.in.s, t.in.data.codec.vocabulary(), std::move(part)));
  CAUSEWAY_TRY(start_from(model, t.in.s, state_comes(t)));
  CAUSEWAY_ASSIGN(model, begin_with_job(std::move(model), t.in));
  if (t.place == nullptr) describe(model, t.in);
  return find_policy(t.in.s.comm.policy)->train(std::move(model), std::move(t));
}

}  // namespace app
