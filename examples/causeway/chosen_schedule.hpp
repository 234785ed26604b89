// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_SCHEDULE_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_SCHEDULE_HPP

// A schedule chosen at run time, so that the program needs no trainer type for each.

#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/stage/schedules.hpp>

#include <cstdint>
#include <string_view>
#include <variant>

namespace app {

class chosen_schedule {
 public:
  static constexpr std::string_view name = "chosen";

  explicit chosen_schedule(std::string_view which = "1f1b") {
    using namespace causeway::stage;
    if (which == "gpipe") it_ = gpipe{};
    if (which == "zero_bubble") it_ = zero_bubble{};
    if (which == "zero_bubble_h2") it_ = zero_bubble_h2{};
    if (which == "zero_bubble_v") it_ = zero_bubble_v{};
    if (which == "chimera") it_ = chimera{};
    if (which == "dual_pipe") it_ = dual_pipe{};
    if (which == "interleaved") it_ = interleaved<2>{};
    if (which == "varuna") it_ = varuna{};
    if (which == "crosspipe") it_ = crosspipe{};
    if (which == "eager") it_ = causeway::stage::opportunistic<one_f_one_b>{};
  }

  [[nodiscard]] std::uint32_t chunks() const {
    return std::visit([](const auto& s) { return s.chunks(); }, it_);
  }
  [[nodiscard]] causeway::plan::stage_path path() const {
    return std::visit([](const auto& s) { return causeway::stage::path_of(s); }, it_);
  }
  [[nodiscard]] std::uint32_t room() const {
    return std::visit([](const auto& s) { return s.room(); }, it_);
  }
  [[nodiscard]] causeway::plan::run_order order() const {
    return std::visit([](const auto& s) { return s.order(); }, it_);
  }
  [[nodiscard]] causeway::result<causeway::plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) const {
    return std::visit([&](const auto& s) { return s.make(ranks, micro_batches); }, it_);
  }

 private:
  std::variant<causeway::stage::one_f_one_b, causeway::stage::gpipe, causeway::stage::zero_bubble,
               causeway::stage::zero_bubble_h2, causeway::stage::zero_bubble_v, causeway::stage::chimera,
               causeway::stage::dual_pipe, causeway::stage::interleaved<2>, causeway::stage::varuna,
               causeway::stage::crosspipe, causeway::stage::opportunistic<causeway::stage::one_f_one_b>>
      it_;
};
static_assert(causeway::stage::Schedule<chosen_schedule>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_SCHEDULE_HPP
