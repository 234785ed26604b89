// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_ROLES_HPP
#define CAUSEWAY_PLAN_ROLES_HPP

// Who trains and who averages for others: DeDLOC (Diskin et al., NeurIPS 2021, arXiv 2106.10207, section 3.2). Peers have a
// speed, a download and an upload. A round takes as long as the slower of two things that overlap: the trainers gather the
// global batch, and everybody's gradients are averaged. With T trainers, a peer that averages the share w of the vector
// receives it from the other trainers and sends the result back, and a trainer also sends, and gets back, what others
// average. Both directions carry the same, so that the narrower one, b, decides:
//   a trainer:  1 + (T - 2) w <= b xi      no trainer:  T w <= b xi      sum of w = 1, w >= 0
// in units of the vector. For given trainers the least xi is exact: the shares that peers can take within xi grow with it,
// and are filled up by bisection. The paper gives the choice of trainers to a solver; here it is a local search that
// changes one peer's role or swaps two, from several starts. collective/shares.hpp is the case where all train.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct role_peer {
  double speed = 0;     ///< samples per second; 0: cannot train
  double download = 0;  ///< bytes per second
  double upload = 0;    ///< bytes per second; with 0 either way it can take no part
};

struct role_plan {
  std::vector<bool> trains;
  std::vector<double> shares;  ///< of the vector, that each peer averages; they add up to 1
  double gather_seconds = std::numeric_limits<double>::infinity();   ///< until the global batch is there
  double average_seconds = std::numeric_limits<double>::infinity();  ///< of an average

  /// Of a round; infinite: nobody can train, or nobody can average.
  [[nodiscard]] double seconds() const noexcept { return std::max(gather_seconds, average_seconds); }
};

namespace detail {

class role_search {
 public:
  CAUSEWAY_DECL role_search(std::span<const role_peer> peers, double batch, double bytes);

  /// With these trainers.
  CAUSEWAY_DECL [[nodiscard]] role_plan rated(std::vector<bool> trains) const;

  CAUSEWAY_DECL [[nodiscard]] role_plan best() const;

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  [[nodiscard]] double width(std::size_t i) const { return std::min(peers_[i].download, peers_[i].upload); }

  /// The share that peer i can average within xi.
  CAUSEWAY_DECL [[nodiscard]] double room(std::size_t i, bool trains, double trainers, double xi) const;

  CAUSEWAY_DECL [[nodiscard]] double least_time(const std::vector<bool>& trains, double trainers, double least) const;

  CAUSEWAY_DECL static bool keep(role_plan& best, role_plan next);

  CAUSEWAY_DECL bool change_roles(role_plan& best) const;

  std::vector<role_peer> peers_;
  double batch_;
  double bytes_;
};

}  // namespace detail

/// The roles with the shortest round that the search finds, for a global batch of `batch` samples and a vector of `bytes`
/// bytes. Deterministic. Each step of the search tries about n^2 / 2 changes of n peers.
CAUSEWAY_DECL role_plan assign_roles(std::span<const role_peer> peers, double batch, double bytes);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/roles.ipp>
#endif

#endif  // CAUSEWAY_PLAN_ROLES_HPP
