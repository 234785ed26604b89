// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_PARTICIPATION_HPP
#define CAUSEWAY_AXIS_PARTICIPATION_HPP

// Whose rows count in an exchange. A function of the run's seed, the exchange and the peer, so that all peers know who
// contributes; at least one always does.

#include <causeway/axis/groups.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// `contributes(question)` for peer question.self; `keeps_local`: a peer that does not contribute goes on from its own live
/// parameters instead of taking the shared ones over. `only_drawn_train`, if it is there: who does not contribute to the
/// next exchange does not compute for it. `weighs`, if it is there: rows count by the samples behind them.
template <class P>
concept Participation = P::decides == part::participation&& requires(const P& p, const group_question& q) {
  { p.check() } -> std::same_as<result<void>>;
  { p.contributes(q) } -> std::same_as<bool>;
  {bool{P::always}};
  {bool{P::keeps_local}};
};

struct everyone {
  static constexpr part decides = part::participation;
  static constexpr bool always = true;
  static constexpr bool keeps_local = false;
  [[nodiscard]] static result<void> check() { return {}; }
  [[nodiscard]] static bool contributes(const group_question&) noexcept { return true; }
};

/// All peers, each by its samples since its last exchange: Σ n_k·w_k / Σ n_k (BACombo, in each of its groups).
struct by_samples : everyone {
  static constexpr bool weighs = true;
};

/// A share of the peers, drawn anew for every exchange, trains and is averaged, each by its samples: Σ n_k·w_k / Σ n_k; the
/// others neither compute nor send a row, and take the result over (FedAvg, McMahan et al. 2017, algorithm 1; Photon). Of N
/// peers max(1, round(share·N)) are drawn. Among peers that come and go who is drawn is known when the exchange begins, so
/// that all compute.
struct sampled_peers {
  static constexpr bool only_drawn_train = true;
  static constexpr bool weighs = true;
  static constexpr part decides = part::participation;
  static constexpr bool always = false;
  static constexpr bool keeps_local = false;

  double share = 0.5;

  CAUSEWAY_DECL [[nodiscard]] result<void> check() const;
  CAUSEWAY_DECL [[nodiscard]] bool contributes(const group_question& q) const;

 private:
  static constexpr std::uint64_t stream = 0x73616D706C65;
};

/// Each row is lost with a probability; its peer neither contributes nor takes the result over, and goes on from its own
/// live parameters (DiLoCo, section 4: half of all pseudo-gradients dropped cost 2.1 % of perplexity). When all would be
/// lost the first peer's row is kept.
struct dropped_rows {
  static constexpr part decides = part::participation;
  static constexpr bool always = false;
  static constexpr bool keeps_local = true;

  double probability = 0.5;

  CAUSEWAY_DECL [[nodiscard]] result<void> check() const;
  CAUSEWAY_DECL [[nodiscard]] bool contributes(const group_question& q) const;

 private:
  static constexpr std::uint64_t stream = 0x64726F70;
  CAUSEWAY_DECL [[nodiscard]] bool kept(const group_question& q, net::peer_index p) const;
};

static_assert(Participation<everyone> && Participation<by_samples> && Participation<sampled_peers> &&
              Participation<dropped_rows>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/participation.ipp>
#endif

#endif  // CAUSEWAY_AXIS_PARTICIPATION_HPP
