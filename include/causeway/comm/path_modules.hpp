// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PATH_MODULES_HPP
#define CAUSEWAY_COMM_PATH_MODULES_HPP

// Models of modules of which each peer trains one path (axis::module_groups), where peers come and go. Every peer keeps all
// modules as they were committed last, with the state of their outer optimizers: so any one of those who are left has the
// whole run, a newcomer can be given whatever path it gets by any of them, and a module that nobody trains stays as it is.
// All peers take part in the exchange of every module; those whose path has it put something in. Of pipelines and swarms
// every peer keeps all versions of its stage, and its pipeline has the path, or the peer is given one for a round.

#include <causeway/axis/fragments.hpp>
#include <causeway/comm/meeting_places.hpp>
#include <causeway/comm/path_roster.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Where all peers train the same model, or are always the same ones.
struct no_modules {
  result<void> start(auto&&...) { return {}; }
  void keep_in(const memory_source&) {}
  void list(auto&&...) {}
  void found(auto&&...) {}
  [[nodiscard]] std::size_t count() const { return 0; }
  [[nodiscard]] std::size_t cut_of(std::size_t) const { return 0; }
  void invite(auto&&...) {}
  void weigh(auto&&...) {}
  void serialize(auto&) {}
};

/// Of one policy, whose states are one for each module then. Memory: 4 bytes for each parameter of each module, beside what
/// a state keeps (its outer optimizer, 8 bytes for the row). A turn brings each peer the means of all modules.
template <class State, class Group>
class path_modules {
  using state_list = std::vector<State>;

 public:
  /// There is a state for each module, or where rows are of single blocks for its part in each of them. Before all else.
  void list(const Group& group, const std::vector<axis::fragment>& cuts) {
    modules_.clear();
    cut_of_.clear();
    for (std::size_t c = 0; c < cuts.size(); ++c) {
      for (const auto& m : group.modules()) {
        if (m.fragment != cuts[c].number) continue;
        modules_.push_back(m);
        cut_of_.push_back(c);
      }
    }
  }
  /// The modules of a run that begins: all versions of a fragment are what the model has there.
  void found(const state_list& states, const std::vector<axis::fragment>& cuts, std::span<const float> parameters) {
    store_.clear();
    for (const State& s : states) {
      const axis::fragment& cut = cuts[s.fragment];
      store_.resize(store_.size() + cut.size);
      axis::gather(cut, parameters, std::span<float>{store_}.last(cut.size));
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return modules_.size(); }
  [[nodiscard]] std::size_t cut_of(std::size_t part) const { return cut_of_[part]; }
  /// Before the first step, also after a checkpoint, once states know their fragments.
  result<void> start(auto& ctx, state_list& states, const Group& group) {
    by_group_ = ctx.exchanges_at_once();
    std::size_t all = 0;
    for (const State& s : states) all += s.size();
    if (all != store_.size()) {
      return fail(errc::wrong_model, "module_groups",
                  "the checkpoint has other modules; start with the paths that it was written with");
    }
    lay_out(states);
    (void)take_path(ctx, states, group);
    return {};
  }
  /// Where each module lies.
  void lay_out(state_list& states) {
    std::size_t at = 0;
    for (State& s : states) s.module = std::span<float>{store_}.subspan(std::exchange(at, at + s.size()), s.size());
  }
  void keep_in(const memory_source& memory) { move_to(memory, store_); }

  /// This peer's path. Before it is in a record it has none, and trains nothing.
  [[nodiscard]] std::optional<std::uint32_t> path() const noexcept {
    return path_ == path_roster::none ? std::nullopt : std::optional{path_};
  }

  // ---- an exchange ------------------------------------------------------------------------------------------------------

  /// Everybody takes part in the exchange of a module; where nobody has anything of it, nobody does.
  void invite(auto& ctx, const Group& group, State& s) {
    const auto those = paths_in(ctx, group, s);
    s.terms.length = group.length_of(those);
    s.terms.contributors = static_cast<std::uint32_t>(those.size());
    s.terms.members.resize(those.empty() ? 0 : meeting_places{ctx}.count());
    std::iota(s.terms.members.begin(), s.terms.members.end(), net::peer_index{0});
  }
  /// How much this peer's row counts there.
  void weigh(auto& ctx, const Group& group, State& s) {
    s.terms.weight *= weight(ctx, group, s);
    s.terms.contributes = s.terms.contributes && s.terms.weight > 0;
  }

  // ---- who has which path -----------------------------------------------------------------------------------------------

  /// That exchange is applied: newcomers get their paths.
  void admit(auto& ctx, state_list& states, const Group& group, auto& rows) {
    if (by_group_) return;
    const bool newcomer = path_ == path_roster::none;
    roster_.admit(ctx.entry().identities, group.paths.size());
    if (newcomer) follow(ctx, states, group, rows, {});
    attempt_ = 0;
  }
  /// The same where nothing is exchanged.
  result<void> admit_alone(auto& ctx, state_list& states, const Group& group, auto& rows) {
    const auto& paths = present(ctx, group);
    if (std::find(paths.begin(), paths.end(), path_roster::none) == paths.end()) return {};
    CAUSEWAY_TRY(ctx.left_exchange({}));  // what all hold alike is about to change
    admit(ctx, states, group, rows);
    return {};
  }
  /// Its pipeline has that one from now on, or it is in none. Whether it is another.
  bool give(auto& ctx, state_list& states, const Group& group, auto& rows, std::optional<std::uint32_t> path) {
    const bool another = path != this->path();
    path_ = path.value_or(path_roster::none);
    (void)take_path(ctx, states, group);
    put(states, group, path.value_or(0), rows.anchor());
    if (another) std::fill(rows.updates().begin(), rows.updates().end(), 0.0F);
    return another;
  }
  /// All modules were replaced: the shared and the live parameters become this peer's path, on which what it trained since
  /// `previous` stays; that is empty where it has nothing of its own.
  void follow(auto& ctx, state_list& states, const Group& group, auto& rows, std::span<const float> previous) {
    attempt_ = 0;
    if (take_path(ctx, states, group)) previous = {};
    const std::span<float> anchor{rows.anchor()}, live = ctx.parameters();
    if (previous.empty()) std::fill(rows.updates().begin(), rows.updates().end(), 0.0F);
    for (const State& s : states) {
      if (s.elsewhere) continue;
      const auto begin = static_cast<std::size_t>(s.module.data() - store_.data());
      const auto before = previous.empty() ? previous : previous.subspan(begin, s.size());
      std::size_t at = 0;
      for (const index_range r : s.cut->ranges) {
        for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i, ++at) {
          anchor[i] = s.module[at];
          live[i] = before.empty() ? s.module[at] : live[i] + (s.module[at] - before[at]);
        }
      }
    }
  }

  /// `to` gets the shared parameters of a path.
  void put(const state_list& states, const Group& group, std::uint32_t path, std::span<float> to) const {
    for (const State& s : states) {
      if (group.has(path, modules_[s.part])) axis::scatter(*s.cut, s.module, to);
    }
  }

  /// What all hold alike.
  void shared(auto& ar) {
    ar(store_);
    if (!by_group_) ar(roster_);
  }
  void serialize(auto& ar) {
    std::uint8_t kind = store_.empty() ? 0 : by_group_ ? 2 : 1;
    ar(kind);
    if (kind != 0) ar(store_);
    if (kind == 1) ar(roster_);
    if (kind == 2) ar(path_);
  }

 private:
  /// How much more a row counts than by its samples; 0: this peer has none of that module. Where paths have weights, the
  /// peers of one share its weight by their samples.
  [[nodiscard]] float weight(auto& ctx, const Group& group, const State& s) {
    if (s.elsewhere || path_ == path_roster::none) return 0;
    if (group.weights.empty() || ctx.result_is_known()) return 1;
    const auto& paths = present(ctx, group);
    const meeting_places places{ctx};
    double all = 0;
    for (net::peer_index p = 0; p < paths.size(); ++p) all += paths[p] == path_ ? places.share_of(p) : 0.0;
    return all > 0 ? static_cast<float>(group.weights[path_] / (all * static_cast<double>(paths.size()))) : 0.0F;
  }
  /// Of those who take part in the exchange that was entered.
  [[nodiscard]] const std::vector<std::uint32_t>& present(auto& ctx, const Group& group) {
    if (by_group_) return ctx.entry().paths;
    if (attempt_ != ctx.attempt() || attempt_ == 0) present_ = roster_.paths_of(ctx.entry().identities, group.paths.size());
    attempt_ = ctx.attempt();
    return present_;
  }
  /// The paths of those of them who put something into a module.
  [[nodiscard]] std::vector<std::uint32_t> paths_in(auto& ctx, const Group& group, const State& s) {
    std::vector<std::uint32_t> those;
    const auto& paths = present(ctx, group);
    for (net::peer_index p = 0; p < paths.size(); ++p) {
      if (paths[p] == path_roster::none || !group.has(paths[p], modules_[s.part])) continue;
      if (by_group_ || ctx.share_of(p) > 0) those.push_back(paths[p]);
    }
    return those;
  }
  /// Whether it is another one than before. Who has none holds the first, and trains nothing.
  bool take_path(auto& ctx, state_list& states, const Group& group) {
    const std::uint32_t before = path_;
    if (!by_group_) path_ = roster_.path_of(ctx.identity(), group.paths.size());
    const bool has_one = path_ != path_roster::none;
    for (State& s : states) s.elsewhere = !group.has(has_one ? path_ : 0, modules_[s.part]);
    if (by_group_) return path_ != before;  // pipelines say themselves who trains
    if (has_one) ctx.contribution().resume();
    if (!has_one) ctx.contribution().pause();
    return path_ != before;
  }

  source_vector<float> store_;  ///< one module after the other
  path_roster roster_;
  std::vector<typename Group::module> modules_;  ///< of each state
  std::vector<std::size_t> cut_of_;              ///< likewise: where it is a part of
  std::uint32_t path_ = path_roster::none;
  std::vector<std::uint32_t> present_;
  std::uint64_t attempt_ = 0;  ///< that they are of
  bool by_group_ = false;      ///< pipelines and swarms say who has which path
};

/// What a policy needs of them.
template <bool ByPath, class State, class Group>
struct modules_of {
  using type = no_modules;
};
template <class State, class Group>
struct modules_of<true, State, Group> {
  using type = path_modules<State, Group>;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_PATH_MODULES_HPP
