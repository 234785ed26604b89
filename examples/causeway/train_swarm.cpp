// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/io/file.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/block_moves.hpp>
#include <causeway/parallel/block_store.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm_peer.hpp>
#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/train/trainer.hpp>

#include <string>
#include <utility>
#include <variant>

#include "chosen_pipeline.hpp"
#include "compose.hpp"
#include "elastic_session.hpp"
#include "noted_round.hpp"
#include "run_model.hpp"
#include "swarm_place.hpp"

namespace app {
namespace {

namespace parallel = causeway::parallel;
namespace routing = causeway::stage::routing;

/// A router chosen at run time, so that the program has one peer type.
class chosen_router {
 public:
  static constexpr std::string_view name = "chosen";

  explicit chosen_router(const settings& s = {}) {
    if (s.parallel.router == "least_load") it_ = routing::least_load{{.seed = s.run.seed}};
    if (s.parallel.router == "random") it_ = routing::random{{.seed = s.run.seed}};
    if (s.parallel.router == "min_cost_flow") it_ = routing::min_cost_flow{};
  }
  void begin(const routing::step_size& size, const routing::roster& known) {
    std::visit([&](auto& r) { r.begin(size, known); }, it_);
  }
  [[nodiscard]] causeway::net::peer_id choose(const routing::roster& known, std::uint32_t stage, std::uint32_t m) {
    return std::visit([&](auto& r) { return r.choose(known, stage, m); }, it_);
  }
  [[nodiscard]] bool runs(const routing::step_size& size, std::uint32_t stage, std::uint32_t m) const {
    return std::visit([&](const auto& r) { return r.runs(size, stage, m); }, it_);
  }

 private:
  std::variant<routing::least_load, routing::random, routing::min_cost_flow> it_;
};
static_assert(routing::Router<chosen_router>);

/// A swarm that a session can report on, and that leaves blocks for `generate`.
class reported_swarm : public parallel::swarm<forgetful_activations> {
 public:
  explicit reported_swarm(std::shared_ptr<noted_round> peer = nullptr, const settings& s = {},
                          causeway::io::any_storage storage = causeway::io::any_storage{causeway::io::posix_storage{}})
      : swarm{peer, forgetful_activations{s.parallel.codec}},
        noted_{std::move(peer)},
        store_{std::move(storage), block_folder(s)} {}

  [[nodiscard]] std::uint32_t peers() const noexcept { return noted_->peers(); }
  [[nodiscard]] std::vector<std::uint32_t> shares(std::uint64_t step) const { return noted_->shares(step); }

  /// Parameters and moments of the stage's blocks, by the first of its peers.
  causeway::result<void> save_blocks(auto& ctx) {
    if (ctx.self() != 0) return {};
    const parallel::crew_words now{.step = ctx.step()};
    const auto blocks = ctx.model().part().ranges(ctx.model().blocks()).front();
    for (std::int64_t b = blocks.first; b < blocks.last; ++b) {
      parallel::block_contents all;
      const auto add = [&](std::span<float> flat) {
        const auto part = parallel::blocks_in(flat, ctx.model().parameters().segments(), {b, b + 1}, ctx.model().blocks());
        all.insert(all.end(), part.begin(), part.end());
      };
      add(ctx.parameters());
      for (const std::span<float> moment : ctx.inner().moments()) add(moment);
      CAUSEWAY_TRY(store_.save(now, b, all));
    }
    return {};
  }

 private:
  std::shared_ptr<noted_round> noted_;
  parallel::block_store store_;
};

}  // namespace

std::shared_ptr<parallel::swarm_round> make_swarm_peer(const settings& s, std::shared_ptr<causeway::net::fabric> over,
                                                       parallel::swarm_options options, const causeway::log_sink& log) {
  return std::make_shared<parallel::swarm_peer<chosen_router>>(std::move(over), std::move(options), chosen_router{s}, log);
}

causeway::result<session_summary> train_swarm(chosen_model model, session_input& in, elastic_place& place,
                                              causeway::environment env) {
  auto trainer = causeway::make_trainer(std::move(model), std::move(env), trainer_options_of(in.s),
                                        causeway::optim::adamw{{.weight_decay = in.s.train.weight_decay}},
                                        causeway::comm::every_step<>{}, reported_swarm{place.swarm, in.s, place.storage},
                                        causeway::fault::quorum{});
  return run_session(trainer, in, place);
}

}  // namespace app
