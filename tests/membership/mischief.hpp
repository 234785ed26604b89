// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_MISCHIEF_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_MISCHIEF_HPP

// What goes wrong in a cluster of protocols, and how often.

namespace causeway::test {

/// Bugs that can be planted from outside the protocol. The checker must find each of them.
enum class planted {
  nothing,
  no_persist,     ///< the disk says yes and writes nothing
  forged_votes,   ///< one vote counts for two members
  hidden_votes,   ///< members do not report what they voted for
  any_leader,     ///< members say that they promised their term to whoever asks
  off_by_one,     ///< trainers skip the first sample they hold
  stale_updates,  ///< trainers let in data of earlier attempts
};

struct chaos {
  double crash = 0;           ///< chance of a crash at a persist
  double disk = 0;            ///< chance that a persist fails
  double duplicate = 0;       ///< chance that a message comes twice, the second time late
  double reorder = 0;         ///< chance that a message overtakes or is overtaken
  double exchange_fails = 0;  ///< chance that an exchange fails for one peer though links are fine
  double slow = 0;            ///< chance that a trainer takes ten times as long
  double diverge = 0;         ///< chance that a peer computes another state than the rest
  planted bug = planted::nothing;
};

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_MISCHIEF_HPP
