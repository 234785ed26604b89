// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_COUNTED_STEPS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_COUNTED_STEPS_HPP

// How many steps the replicas of an attempt have made together since the last exchange, where each goes at its own pace:
// the first stage of each tells those of the others, as long as they are too few.

#include <causeway/config/config.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer, for the trainer's thread. What is under way ends with it.
class counted_steps {
 public:
  /// Another attempt: `transport` leads to its peers, and must stay where it is. `others`: those who count, too.
  CAUSEWAY_DECL void begin(net::any_transport& transport, const net::message_id& id,
                           std::span<const net::peer_index> others);

  /// This replica has made `own`: whether all together have made `enough`, as far as was heard. Tells the others, 8 bytes
  /// to each, until that is so. Without waiting.
  CAUSEWAY_DECL bool reach(std::uint64_t own, std::uint64_t enough);

 private:
  struct word {
    net::peer_index peer = 0;
    std::uint64_t number = 0;  // of the one that comes next
    std::uint64_t steps = 0;   // that the last one said
    std::uint64_t room = 0;
    net::scoped_operation operation{};
  };
  struct said {
    std::uint64_t steps = 0;
    net::scoped_operation operation{};
  };

  CAUSEWAY_DECL void listen(word& w);
  CAUSEWAY_DECL void tell(std::uint64_t own);
  CAUSEWAY_DECL [[nodiscard]] net::message_id named(std::uint64_t number) const;

  net::any_transport* transport_ = nullptr;
  net::message_id id_;
  std::vector<word> heard_;  // of each of the others
  std::deque<said> said_;    // and is under way; they stay where they are
  std::uint64_t told_ = 0;   // words to each
  bool reached_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/counted_steps.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_COUNTED_STEPS_HPP
