// SPDX-License-Identifier: Apache-2.0
#include <causeway/fault/quorum.hpp>
#include <causeway/io/file.hpp>
#include <causeway/parallel/elastic/block_store.hpp>
#include <causeway/parallel/local_swarm.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm/swarm_peer.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/stage/any_router.hpp>
#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/stage/routing_planned.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "elastic_session.hpp"
#include "noted_round.hpp"
#include "run_policy.hpp"
#include "swarm_place.hpp"

namespace app {
namespace {

namespace parallel = causeway::parallel;
namespace routing = causeway::stage::routing;

// A peer's identity ends in its number: `fresh_identity`.
routing::planned<> planned_router(const settings& s) {
  auto paths = routing::parse_paths(s.parallel.paths);  // which validate_swarm has read
  return routing::planned<>{{paths ? std::move(*paths) : std::vector<routing::path>{}, 1000},
                            routing::least_load{{.seed = s.run.seed}}};
}

routing::any_router router_of(const settings& s) {
  if (s.parallel.router == "random") return routing::random{{.seed = s.run.seed}};
  if (s.parallel.router == "min_cost_flow") return routing::min_cost_flow{};
  if (s.parallel.router == "peer_flow") return routing::min_cost_flow{{.by_peers = true, .seed = s.run.seed}};
  if (s.parallel.router == "planned") return planned_router(s);
  return routing::least_load{{.seed = s.run.seed}};
}

/// A swarm that a session can report on, and that leaves blocks for `generate`.
template <class Swarm>
class reported : public Swarm {
 public:
  explicit reported(std::shared_ptr<noted_round> peer = nullptr, const settings& s = {},
                    forgetful_activations codec = forgetful_activations{},
                    causeway::io::any_storage storage = causeway::io::any_storage{causeway::io::posix_storage{}})
      : Swarm{peer ? peer->peer() : nullptr, std::move(codec)},
        noted_{std::move(peer)},
        store_{std::move(storage), block_folder(s)} {}

  [[nodiscard]] std::uint32_t peers() const noexcept { return noted_->peers(); }
  [[nodiscard]] std::vector<std::uint32_t> shares(std::uint64_t step) const { return noted_->shares(step); }

  causeway::result<void> save_blocks(auto& ctx) { return save_blocks(ctx, ctx.step(), ctx.parameters(), {}); }
  /// The stage's blocks after `step`, by the first of its peers: the parameters that all of them hold, and its moments.
  /// Where parameters themselves are exchanged, `parameters` is empty, and its own are saved. Those of each path through a
  /// model of modules come last.
  causeway::result<void> save_blocks(auto& ctx, std::uint64_t step, std::span<const float> parameters,
                                     std::vector<std::vector<float>> paths) {
    if (ctx.self() != 0) return {};
    const parallel::step_record now{.step = step};
    const std::span<const float> all_hold = parameters.empty() ? ctx.parameters() : parameters;
    std::vector<float> held{all_hold.begin(), all_hold.end()};
    const auto blocks = ctx.model().part().ranges(ctx.model().blocks()).front();
    for (std::int64_t b = blocks.first; b < blocks.last; ++b) {
      parallel::block_contents all;
      const auto add = [&](std::span<float> flat) {
        parallel::for_pieces_of(ctx.model(), flat, b,
                                [&](std::span<float> p) { all.insert(all.end(), p.begin(), p.end()); });
      };
      add(held);
      for (const std::span<float> moment : ctx.inner().moments()) add(moment);
      for (auto& path : paths) add(path);
      CAUSEWAY_TRY(store_.save(now, b, all));
    }
    return {};
  }

 private:
  std::shared_ptr<noted_round> noted_;
  parallel::block_store store_;
};

}  // namespace

std::shared_ptr<parallel::swarm_peer> make_swarm_peer(const settings& s, std::shared_ptr<causeway::net::fabric> over,
                                                      parallel::swarm_options options, const causeway::log_sink& log) {
  return std::make_shared<parallel::swarm_peer>(std::move(over), std::move(options), router_of(s), log);
}

causeway::result<session_summary> train_swarm(chosen_model model, training t, chosen_policy comm) {
  session_input& in = t.in;
  elastic_place& place = *t.place;
  constexpr causeway::peers elastic = causeway::peers::elastic;
  const std::int64_t width = model.width();
  CAUSEWAY_ASSIGN(chosen_inner inner, inner_of_stages(in.s, model));
  const auto train = [&](auto chosen, auto swarm) {
    auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(in.s), std::move(inner),
                                          std::move(chosen), std::move(swarm), causeway::fault::quorum{});
    handle_of handle{trainer};
    return run_session(handle, in, place);
  };
  if (exchanges_gradients(in.s)) {
    constexpr causeway::comm_traits by_stages{.tolerates = elastic, .exchanges_gradients = true, .moves_with_blocks = true};
    return train(chosen_comm<by_stages>{std::move(comm)}, reported<parallel::swarm<forgetful_activations>>{
                                                              place.swarm, in.s, forgetful_of(in.s, width), place.storage});
  }
  if (comm.traits().sums_gradients) {
    constexpr causeway::comm_traits sums{.tolerates = elastic, .exchanges_gradients = true, .sums_gradients = true};
    return train(chosen_comm<sums>{std::move(comm)}, reported<parallel::swarm<forgetful_activations>>{
                                                         place.swarm, in.s, forgetful_of(in.s, width), place.storage});
  }
  if (comm.traits().gathers_samples) {
    constexpr causeway::comm_traits gathers{.tolerates = elastic, .exchanges_gradients = true, .allows_late_steps = true};
    return train(chosen_comm<gathers>{std::move(comm)}, reported<parallel::local_swarm<forgetful_activations>>{
                                                            place.swarm, in.s, forgetful_of(in.s, width), place.storage});
  }
  if (comm.traits().allows_late_steps) {
    constexpr causeway::comm_traits moves{.tolerates = elastic, .allows_late_steps = true};
    return train(chosen_comm<moves>{std::move(comm)}, reported<parallel::local_swarm<forgetful_activations>>{
                                                          place.swarm, in.s, forgetful_of(in.s, width), place.storage});
  }
  return causeway::fail(causeway::errc::unsupported, "comm.policy", in.s.comm.policy + " does not go with a swarm");
}

}  // namespace app
