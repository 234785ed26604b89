// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PRESET_HPP
#define CAUSEWAY_EXAMPLES_PRESET_HPP

// A preset of the library becomes a policy of the program, by its name. What its options are called alike in the settings
// is set by itself.

#include <causeway/axis/every.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "policies.hpp"
#include "run_policy.hpp"
#include "settings.hpp"

namespace app {

using policy_defaults = std::vector<std::pair<std::string, std::string>>;

template <class T>
std::string text(T value) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

/// Who exchange with each other: of a fixed set of peers those that hold the whole model, or the same stage of it; else
/// all.
inline std::uint32_t replicas_of(const settings& s) {
  const std::uint32_t ranks = s.parallel.stages == 0 ? s.net.peers : static_cast<std::uint32_t>(s.parallel.stages);
  return is_pipeline(s) && !is_elastic_pipeline(s) ? std::max(s.net.peers / ranks, 1U) : s.net.peers;
}

/// Peers in groups of `size` by their numbers, the hub first; what is left over is a smaller one.
inline std::vector<std::vector<causeway::net::peer_index>> regions_of(std::uint32_t peers, std::uint32_t size) {
  std::vector<std::vector<causeway::net::peer_index>> all;
  for (std::uint32_t p = 0; p < peers; ++p) {
    if (size == 0 || p % size == 0) all.emplace_back();
    all.back().push_back(p);
  }
  return all;
}

/// What most options have, under the same names: `f(name, option, setting)`.
template <class Options, class Settings, class F>
void for_usual(Options& o, Settings& s, F&& f) {
  if constexpr (requires { o.local_steps; }) f("comm.local_steps", o.local_steps, s.comm.local_steps);
  if constexpr (requires { o.outer_learning_rate; }) {
    f("comm.outer_learning_rate", o.outer_learning_rate, s.comm.outer_learning_rate);
  }
  if constexpr (requires { o.outer_momentum; }) f("comm.outer_momentum", o.outer_momentum, s.comm.outer_momentum);
  if constexpr (requires { o.blocks_in_fragment; }) f("comm.fragment_blocks", o.blocks_in_fragment, s.comm.fragment_blocks);
  if constexpr (requires { o.overlap_steps; }) f("comm.overlap_steps", o.overlap_steps, s.comm.overlap_steps);
  if constexpr (requires { o.local_share; }) f("comm.local_share", o.local_share, s.comm.local_share);
  if constexpr (requires { o.error_decay; }) f("comm.error_decay", o.error_decay, s.comm.error_decay);
  if constexpr (requires { o.share; }) f("comm.share", o.share, s.comm.share);
  if constexpr (requires { o.k; }) f("comm.sparse_k", o.k, s.comm.sparse_k);
  if constexpr (requires { o.fragments; }) f("comm.fragments", o.fragments, s.comm.fragments);
  if constexpr (requires { o.seconds; }) f("comm.seconds", o.seconds, s.comm.seconds);
  if constexpr (requires { o.fewest_steps; }) f("comm.fewest_steps", o.fewest_steps, s.comm.fewest_steps);
  if constexpr (requires { o.quorum; }) f("comm.quorum", o.quorum, s.comm.quorum);
  if constexpr (requires { o.most_ahead; }) f("comm.most_ahead", o.most_ahead, s.comm.most_ahead);
  if constexpr (requires { o.group_size; }) f("comm.group_size", o.group_size, s.comm.group_size);
  if constexpr (requires { o.measure_every; }) f("comm.measure_every", o.measure_every, s.comm.measure_every);
  if constexpr (requires { o.auxiliary; }) f("comm.auxiliary", o.auxiliary, s.comm.auxiliary);
  if constexpr (requires { o.message_bytes; }) f("comm.message_bytes", o.message_bytes, s.comm.message_bytes);
  if constexpr (requires { o.dimensions; }) f("comm.dimensions", o.dimensions, s.comm.dimensions);
}

template <class Options>
policy_defaults usual_defaults(Options o) {
  policy_defaults all;
  const settings none;
  for_usual(o, none, [&](const char* name, const auto& value, const auto&) { all.emplace_back(name, text(value)); });
  return all;
}

/// How many fragments the blocks of the model make, where they are cut at blocks; else as many as are wanted.
template <class Options>
std::size_t fragments_of(const Options& o, const settings& s) {
  if constexpr (requires { o.blocks_in_fragment; }) {
    const std::int64_t each = std::max<std::int64_t>(1, o.blocks_in_fragment);
    return 1 + static_cast<std::size_t>((s.model.layers + each - 1) / each);  // what is in no block is one, too
  }
  return s.comm.fragments;
}

/// What no peer could begin with: `take` as below.
template <class Options, class Take>
causeway::result<void> check_options(const settings& s, const Take& take) {
  Options o;
  for_usual(o, s, [](const char*, auto& value, const auto& given) { value = given; });
  take(s, o);
  [[maybe_unused]] const auto made = make(o);
  if constexpr (requires { made.trigger().check(1); }) {
    const auto begins = made.trigger().check(fragments_of(o, s));
    if (begins) return {};
    std::string of = "comm.local_steps, comm.fragments";
    if constexpr (requires { o.blocks_in_fragment; }) of = "comm.local_steps, comm.fragment_blocks";
    return causeway::fail(begins.error().code, s.comm.policy, begins.error().message + " (" + of + ")");
  }
  return {};
}

/// Of `Options`: `defaults` are of settings with other names, which `take(settings, options)` reads.
template <class Options, class Take>
policy preset(std::string name, std::string help, pace moves, const policy_defaults& defaults, Take take) {
  using causeway::presets::make;
  using type = decltype(make(Options{}));
  policy_defaults all = usual_defaults(Options{});
  all.insert(all.end(), defaults.begin(), defaults.end());
  const auto train = [moves, take](chosen_model model, training t) -> causeway::result<session_summary> {
    Options o;
    for_usual(o, t.in.s, [](const char*, auto& value, const auto& given) { value = given; });
    take(t.in.s, o);
    std::uint64_t fragments = 1;
    if constexpr (requires { o.blocks_in_fragment; }) {
      auto& store = model.parameters();
      const causeway::axis::strided cuts{o.blocks_in_fragment};
      CAUSEWAY_ASSIGN(const auto cut,
                      cuts.cut(store.segments(), store.values().size(), {{}, 0, static_cast<std::size_t>(model.blocks())}));
      fragments = cut.size();
    }
    return run_policy(std::move(model), std::move(t), chosen_policy{make(o)}, moves, fragments);
  };
  const auto is_steps = [](const auto& one) { return one.first == "comm.local_steps"; };
  const bool has_steps = std::any_of(all.begin(), all.end(), is_steps);
  policy made{std::move(name), std::move(help), std::move(all), type::traits, has_steps, train};
  if constexpr (requires(const type& p) { p.trigger(); }) {
    using trigger = std::remove_cvref_t<decltype(std::declval<const type&>().trigger())>;
    made.in_turn = std::is_same_v<trigger, causeway::axis::staggered>;
  }
  made.check = [take](const settings& s) { return check_options<Options>(s, take); };
  return made;
}
template <class Options>
policy preset(std::string name, std::string help, pace moves, const policy_defaults& defaults = {}) {
  return preset<Options>(std::move(name), std::move(help), moves, defaults, [](const settings&, Options&) {});
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PRESET_HPP
