// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_HUBS_HPP
#define CAUSEWAY_AXIS_HUBS_HPP

// Who pushes to whom (comm::async_parameter_server): one hub for all, or a hub in each region and one of these for all
// regions. And what a push is made of.

#include <causeway/axis/outer.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/optim/delayed_nesterov.hpp>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// One level of hubs. The first of each group is its hub; it takes part as well. Level 0 has the peers themselves, each in
/// one group; level n + 1 has the hubs of level n.
struct hub_level {
  std::vector<std::vector<net::peer_index>> groups;
  std::uint32_t pushes = 1;  ///< level 1 and up: a hub pushes after so many pushes to it, counted from the last answer
  float upper_share = 0;     ///< level 1 and up: s in own ← (1−s)·own + s·upper, when the answer is there
};

/// Requirements: `check(peers)`; `levels(peers)`, one hub_level each; `outers()`, a tuple of the outer optimizers of level
/// 1 and up (the one of level 0 is the outer axis). Where peers come and go both are asked with 0, there is one hub of hubs
/// at most, `levels` have no groups, and besides: `label`, which group of level 0 this peer is in and how many there are;
/// `record_samples`.
template <class H>
concept Hubs = H::decides == part::group&& requires(const H& h, std::uint32_t peers) {
  { h.check(peers) } -> std::same_as<result<void>>;
  { h.levels(peers) } -> std::same_as<std::vector<hub_level>>;
  h.outers();
  h.label;
  h.record_samples;
};

/// One peer holds the shared parameters for all.
struct star {
  static constexpr part decides = part::group;
  static constexpr collective::region_label label{.fewest = 1};

  net::peer_index hub = 0;  ///< where peers come and go it is the first, and then the first that is left
  /// Where peers come and go: samples of all of them together from one record to the next. In a record all take the hub's
  /// state over, so that any of them can be the next hub. At least a few pushes of each peer.
  std::uint64_t record_samples = 0;

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t peers) const;
  CAUSEWAY_DECL [[nodiscard]] std::vector<hub_level> levels(std::uint32_t peers) const;
  CAUSEWAY_DECL [[nodiscard]] static std::tuple<> outers();
};

/// Where peers come and go: what `label` and `record_samples` must be.
CAUSEWAY_DECL [[nodiscard]] result<void> check_elastic_hubs(const char* who, const collective::region_label& label,
                                                            std::uint64_t record_samples);

/// A hub in every region, which is a client of the first region's hub (HALoS, Kim et al. 2025): only hubs talk over the
/// lines between regions, and only after every `pushes` pushes. `upper` is the outer optimizer of the level above.
template <class Upper = outer<optim::delayed_nesterov>>
struct regions {
  static constexpr part decides = part::group;

  std::vector<std::vector<net::peer_index>>
      members{};  ///< of each region, its hub first; the first of all is the global hub
  std::uint32_t pushes = 32;
  float upper_share = 0.25F;
  Upper upper{};
  /// Where peers come and go, instead of `members`: this peer's region, and how many there may be, `fewest` of them, from 0
  /// on; equal on all peers. The hub of a region is its first peer, and then the first that is left; the global hub is one
  /// of these. In pipelines `own` is not said: they share the regions out.
  collective::region_label label{};
  /// Where peers come and go, as of a star: in a record all regions push what they have, and take the answer.
  std::uint64_t record_samples = 0;

  [[nodiscard]] result<void> check(std::uint32_t peers) const {
    if (peers == 0) return check_elastic();
    if (collective::has_each_once(members, peers) && pushes > 0 && upper_share >= 0 && upper_share <= 1) return {};
    return fail(errc::invalid_argument, "regions",
                "every peer must be in one region, no region empty, `pushes` at least 1 and `upper_share` between 0 and 1");
  }
  [[nodiscard]] std::vector<hub_level> levels(std::uint32_t) const {
    return {{.groups = members}, {.groups = {collective::hubs_of(members)}, .pushes = pushes, .upper_share = upper_share}};
  }
  [[nodiscard]] std::tuple<Upper> outers() const { return {upper}; }

 private:
  [[nodiscard]] result<void> check_elastic() const {
    if (!members.empty() || pushes == 0 || !(upper_share >= 0 && upper_share <= 1)) {
      return fail(errc::invalid_argument, "regions",
                  "`members` name peers by their numbers, but peers come and go: leave it empty, and say in `label` which "
                  "region this peer is in; `pushes` is at least 1 and `upper_share` between 0 and 1");
    }
    return check_elastic_hubs("regions", label, record_samples);
  }
};

/// A push: a codec, which may send coordinates of the peer's own choice, and what a hub makes of several pushes. Shared
/// parameters come back as f32. Bytes of a round of one peer: the encoded row up, 4 bytes a value down.
template <class Codec = compress::none, class Aggregator = collective::mean>
struct push {
  using codec_type = compress::as_message<Codec>;
  static constexpr part decides = part::exchange;
  static constexpr bool is_push = true;

  Codec codec{};
  Aggregator aggregator{};
};

static_assert(Hubs<star> && Hubs<regions<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/hubs.ipp>
#endif

#endif  // CAUSEWAY_AXIS_HUBS_HPP
