// SPDX-License-Identifier: Apache-2.0
#include "remote_model.hpp"

#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>
#include <causeway/parallel/experts/expert_client.hpp>
#include <causeway/parallel/experts/expert_gpt.hpp>
#include <causeway/parallel/serving/tuned_model.hpp>
#include <causeway/stage/activation.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "merge_adapters.hpp"
#include "model_options.hpp"
#include "served_part.hpp"
#include "starting_model.hpp"
#include "welcome.hpp"

namespace app {
namespace {

namespace net = causeway::net;
namespace nn = causeway::nn;
namespace parallel = causeway::parallel;
using causeway::errc;
using causeway::fail;
using causeway::result;
using tokens = chosen_model::tokens;

/// What is trained here of a model, and what the rest of the program asks of it.
template <class M>
struct remote_model final : chosen_model::face {
  remote_model(std::unique_ptr<parallel::expert_client> asks, M m, const settings& s)
      : client{std::move(asks)}, model{std::move(m)}, servers{s.servers.at.size()}, layers{s.model.layers} {}

  causeway::parameter_store& parameters() override { return model.parameters(); }
  causeway::thread_pool& pool() override { return model.backend().pool(); }
  std::uint64_t config_hash() override { return model.config_hash(); }
  result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                  std::uint64_t stream) override {
    return model.forward_backward(inputs, targets, sequences, scale, stream);
  }
  result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) override {
    return model.evaluate(inputs, targets, sequences);
  }
  result<void> load(const std::string&) override { return {}; }  // it began with what was stored
  std::string computes_on() override {
    return model.backend().describe() + "; " + std::to_string(servers) + " servers hold the rest of the model";
  }
  nn::memory_estimate memory_estimate(std::int64_t) override {
    const auto bytes = static_cast<std::size_t>(parameters().length()) * sizeof(float);
    nn::memory_estimate e;
    e.parameters = e.gradients = bytes;
    return e;
  }
  std::int64_t blocks() override { return layers; }
  const nn::model_part& part() override { return whole; }

  std::unique_ptr<parallel::expert_client> client;  ///< of a model with experts, which uses it
  M model;
  std::size_t servers;
  std::int64_t layers;
  nn::model_part whole;
};

/// A fabric of this peer's own, beside the transport to the other peers.
result<std::shared_ptr<net::fabric>> open_client(session_input& in) {
  if (in.s.servers.at.empty()) {
    return fail(errc::invalid_argument, "servers.at", "say where the servers are, which causeway serve starts");
  }
  const auto index = static_cast<std::uint32_t>(std::max<std::int64_t>(in.s.net.index, 0));
  net::endpoint here = listen_near(in.s.servers.at.front());
  here.port = 0;
  CAUSEWAY_ASSIGN(const auto fabric, net::open_fabric(here, server_fabric(in.s, fresh_identity(index))));
  in.ended_by(fabric->interrupter());
  in.with_servers = [fabric] { return fabric->stats(); };
  return std::shared_ptr<net::fabric>{fabric};
}

causeway::time_point deadline(net::fabric& over, const settings& s) {
  causeway::time_point now;
  over.locked([&] { now = over.now(); });
  return now + std::chrono::seconds{std::max(1U, s.net.patience)};
}

causeway::error nobody_serves(const settings& s, const std::string& what) {
  std::string where;
  for (const std::string& at : s.servers.at) where += (where.empty() ? "" : ", ") + at;
  return fail(errc::timeout, where,
              "no server there has " + what + " of this run within net.patience (" + std::to_string(s.net.patience) +
                  " s); start causeway serve with the run's settings, and name all with --servers");
}

result<chosen_model> with_experts(session_input& in) {
  const settings& s = in.s;
  CAUSEWAY_ASSIGN(const auto fabric, open_client(in));
  const auto mixture = mixture_of(s);
  CAUSEWAY_ASSIGN(auto client, parallel::expert_client::create(fabric, {.mixture = mixture, .dial = s.servers.at}));
  const auto all = static_cast<std::size_t>(parallel::grid_of(mixture).places());
  CAUSEWAY_ASSIGN(const bool there, client->wait_for_experts(all, deadline(*fabric, s)));
  if (!there && client->alive().size() == 0) return nobody_serves(s, "experts");
  parallel::expert_gpt_options o{.heads = s.model.heads,
                                 .context = s.model.context,
                                 .vocabulary = rows_of_table(s, in.data.codec.vocabulary()),
                                 .epsilon = s.model.epsilon,
                                 .gate = {.chosen = s.experts.chosen, .seed = s.run.seed}};
  CAUSEWAY_ASSIGN(auto model, parallel::expert_gpt::create(o, *client, causeway::kernels::cpu_backend{s.net.threads}));
  model.initialize(s.run.seed);
  return chosen_model{std::make_unique<remote_model<parallel::expert_gpt>>(std::move(client), std::move(model), s)};
}

template <class Family>
result<chosen_model> tuned(session_input& in, const typename Family::options_type& frozen) {
  const settings& s = in.s;
  using codec_type = causeway::stage::coded<causeway::compress::dynamic_int8>;
  using model_type = parallel::tuned_model<Family, codec_type>;
  CAUSEWAY_ASSIGN(const auto fabric, open_client(in));
  const parallel::block_client_options client{
      .run = server_network(s), .dial = s.servers.at, .give_up = std::chrono::seconds{std::max(1U, s.net.patience)}};
  CAUSEWAY_ASSIGN(model_type model,
                  model_type::create(frozen, tuning_of(s), stored_in(s.model.init, frozen), fabric, client, codec_type{},
                                     log_to_stderr(), causeway::kernels::cpu_backend{s.net.threads}));
  CAUSEWAY_ASSIGN(const bool there, model.client().wait_for_blocks(deadline(*fabric, s)));
  if (!there) return nobody_serves(s, "all blocks of the model");
  model.initialize(s.run.seed);
  return chosen_model{std::make_unique<remote_model<model_type>>(nullptr, std::move(model), s)};
}

}  // namespace

result<chosen_model> make_remote_model(session_input& in) {
  if (has_experts(in.s)) return with_experts(in);
  CAUSEWAY_TRY(check_start(in.s));
  if (rows_of_table(in.s, 0) < in.data.codec.vocabulary()) {
    return fail(errc::wrong_model, "data.tokenizer",
                "makes " + std::to_string(in.data.codec.vocabulary()) + " tokens, and the model knows " +
                    std::to_string(in.s.model.vocabulary) + "; use its own, which is the default");
  }
  CAUSEWAY_ASSIGN(const auto stored, causeway::formats::read_config_of(in.s.model.init));
  if (const auto* const gpt = std::get_if<nn::gpt_options>(&stored)) return tuned<nn::gpt_family>(in, *gpt);
  return tuned<nn::llama_family>(in, std::get<nn::llama_options>(stored));
}

}  // namespace app
