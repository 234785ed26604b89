// SPDX-License-Identifier: Apache-2.0
// Servers and a client of frozen blocks over real sockets: peers are threads.
#include <causeway/parallel/serving/block_server.hpp>

#include <causeway/compress/block_int8.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/threaded_server.hpp"
#include "support/tuned_gpt.hpp"

namespace causeway {
namespace {

using namespace std::chrono_literals;
using blocks_type = stage::frozen_blocks<nn::gpt_family>;

template <class Codec>
using server = support::threaded_server<parallel::block_server<blocks_type, Codec>>;

template <class Codec>
std::unique_ptr<server<Codec>> served(nn::gpt& model, net::peer_id id, std::int64_t first, std::int64_t blocks) {
  parallel::block_server_options o;
  o.run = 5, o.first = first, o.blocks = blocks, o.heartbeat = 50ms;
  auto frozen = support::valued(blocks_type::create(support::frozen_gpt, support::parameters_from(model)));
  return std::make_unique<server<Codec>>(id, o, std::move(frozen));
}

/// Losses of steps over two servers of each block, of which one goes after the second step; and in one place.
template <class Codec>
std::pair<std::vector<double>, std::vector<double>> losses(nn::gpt& model) {
  const parallel::tuning_options tuning{.prompts = parallel::prompt_options{.rows = 2}};
  std::vector<std::unique_ptr<server<Codec>>> servers;
  for (net::peer_id id = 1; id <= 4; ++id) servers.push_back(served<Codec>(model, id, id % 2 * 3, 3));
  parallel::block_client_options o;
  o.run = 5, o.heartbeat = 50ms, o.give_up = 60s;
  for (const auto& s : servers) o.dial.push_back(s->address());
  auto client = support::valued(parallel::tuned_model<nn::gpt_family, Codec>::create(
      support::frozen_gpt, tuning, support::parameters_from(model), support::tcp_fabric(99), o));
  std::pair<std::vector<double>, std::vector<double>> all;
  optim::adamw over_tcp, in_one_place;
  over_tcp.reset(client.parameters().length());
  in_one_place.reset(client.parameters().length());
  support::unsplit_tuning whole{model, tuning};
  parameter_store store;
  store.add("prompts", parameter_kind::embedding, 2, support::frozen_gpt.width);
  store.add("deep_prompts", parameter_kind::embedding, 12, support::frozen_gpt.width);
  store.allocate();
  std::copy(client.parameters().values().begin(), client.parameters().values().end(), store.values().begin());
  for (std::uint64_t s = 0; s < 5; ++s) {
    if (s == 2) servers.erase(servers.begin());
    const support::small_text t{s};
    all.first.push_back(support::tuned(client, over_tcp, t) * static_cast<double>(support::mean_scale));
    std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
    all.second.push_back(whole.run(store, t, true) * static_cast<double>(support::mean_scale));
    in_one_place.step(model.backend().pool(), store.view(), {.learning_rate = 0.05F});
  }
  return all;
}

}  // namespace

TEST_CASE("frozen blocks over TCP: losses are those of the model in one place, also when a server goes",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const auto exact = losses<stage::plain>(model);
  CHECK(exact.first == exact.second);
  const auto rounded = losses<stage::coded<compress::block_int8>>(model);
  for (std::size_t s = 0; s < rounded.first.size(); ++s) CHECK(rounded.first[s] == Approx(rounded.second[s]).epsilon(0.05));
}

}  // namespace causeway
