// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROUTING_PLANNED_HPP
#define CAUSEWAY_STAGE_ROUTING_PLANNED_HPP

// Micro-batches that take paths of a plan through some of the stages: SkipPipe (Blagoev et al., 2025). `plan::plan_skips`
// searches for them; here they are data. A lost peer's place is taken as in any swarm. A cyclic plan without peers, which
// needs no search: routing_skip.hpp.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/stage/routing.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

/// In place of a peer: the micro-batch does not pass the stage.
inline constexpr net::peer_id left_out = std::numeric_limits<net::peer_id>::max();
/// In place of a peer: any of the stage.
inline constexpr net::peer_id anybody = left_out - 1;

/// errc::invalid_argument: a path that does not name `stages` stages, or leaves the first or the last one out; a stage that
/// all paths leave out, which would learn nothing.
CAUSEWAY_DECL result<void> check(const std::vector<path>& paths, std::uint32_t stages);

/// Reads paths from text: "0 2 - 7; 1 - * 8" are two through four stages, by the numbers of peers; -: left out, *: anybody.
/// errc::bad_text names the word.
CAUSEWAY_DECL result<std::vector<path>> parse_paths(std::string_view text);
CAUSEWAY_DECL [[nodiscard]] std::string to_text(const std::vector<path>& paths);

struct planned_options {
  std::vector<path> paths{};  ///< [path][stage]: peer, left_out or anybody; equal on all peers. None: all stages, anybody
  std::uint64_t numbers = 0;  ///< paths name peers by their ids modulo this; 0: by their ids
};

/// The m-th micro-batch takes path m modulo their number, counted over all steps, so that all paths are taken equally
/// often. Where its peer is not there, or has failed, and where the path says `anybody`, `Inner` chooses. The first and the
/// last stage, with the embedding and the loss, always run.
///
/// Only for models whose blocks are residual. A stage's gradient is the sum over the micro-batches that passed it.
template <Router Inner = least_load>
class planned {
 public:
  static constexpr std::string_view name = "planned";

  explicit planned(planned_options options = {}, Inner inner = Inner{})
      : options_{std::move(options)}, inner_{std::move(inner)} {}

  void begin(const step_size& size, const roster& known) {
    size_ = size;
    inner_.begin(size, known);
  }

  [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) {
    const net::peer_id named = at(size_, stage, micro_batch);
    for (const server& s : known.at(stage)) {
      if (!s.banned && (options_.numbers == 0 ? s.id : s.id % options_.numbers) == named) return s.id;
    }
    return inner_.choose(known, stage, micro_batch);
  }

  [[nodiscard]] bool runs(const step_size& size, std::uint32_t stage, std::uint32_t micro_batch) const noexcept {
    return stage == 0 || stage + 1 >= size.stages || at(size, stage, micro_batch) != left_out;
  }

 private:
  [[nodiscard]] net::peer_id at(const step_size& size, std::uint32_t stage, std::uint32_t micro_batch) const noexcept {
    if (options_.paths.empty()) return anybody;
    const path& way = options_.paths[(micro_batch + size.step * size.micro_batches) % options_.paths.size()];
    return stage < way.size() ? way[stage] : anybody;
  }

  planned_options options_;
  Inner inner_;
  step_size size_;
};
static_assert(Router<planned<>>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/routing_planned.ipp>
#endif

#endif  // CAUSEWAY_STAGE_ROUTING_PLANNED_HPP
