// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/round_rules.hpp>

#include <sstream>
#include <string>

#include "support/catch.hpp"
#include "support/written_page.hpp"

using namespace causeway;

namespace {

struct named {
  const char* name;
  void (*set)(comm::round_mix&);
};

constexpr named contents[] = {
    {"`pseudo_gradient`", [](comm::round_mix&) {}},
    {"`pseudo_gradient_and_anchor`, `gossip_nesterov`",
     [](comm::round_mix& m) { m.sends_anchor = m.wants_mean_shared = true; }},
    {"`gradient`", [](comm::round_mix& m) { m.anchored = false, m.before_inner_step = true; }},
    {"`parameters`", [](comm::round_mix& m) { m.anchored = false; }},
};

constexpr named exchanges[] = {
    {"`all_reduce`", [](comm::round_mix&) {}},
    {"`split_mean`", [](comm::round_mix& m) { m.by_context = false, m.own_support = true; }},
    {"`gather_mean`", [](comm::round_mix& m) { m.by_context = false, m.own_support = m.gives_counts = true; }},
    {"`gather_mean`, sparse",
     [](comm::round_mix& m) { m.by_context = false, m.own_support = m.gives_counts = m.sparse = true; }},
    {"`quantised_ring`, `tree_mean`", [](comm::round_mix& m) { m.by_context = m.gives_residual = false; }},
};

constexpr named others[] = {
    {"all peers, `blocking`", [](comm::round_mix&) {}},
    {"groups", [](comm::round_mix& m) { m.everybody = m.lasting = false; }},
    {"`module_groups`", [](comm::round_mix& m) { m.everybody = false; }},
    {"`delayed`", [](comm::round_mix& m) { m.waits_at_once = false; }},
    {"`one_round_late`", [](comm::round_mix& m) { m.waits_at_once = false, m.waits_a_round = true; }},
    {"`eager`", [](comm::round_mix& m) { m.waits_at_once = false, m.waits_a_round = m.own_is_fresh = true; }},
    {"`error_feedback`", [](comm::round_mix& m) { m.keeps_residual = true; }},
    {"`implicit_residual`", [](comm::round_mix& m) { m.keeps_residual = m.residual_in_parameters = true; }},
    {"`growing`", [](comm::round_mix& m) { m.watches_movement = true; }},
    {"`global_samples`", [](comm::round_mix& m) { m.accumulates = true; }},
    {"`batch_by_speed`", [](comm::round_mix& m) { m.weighs = m.trigger_talks = m.tells = true; }},
    {"`every_seconds`", [](comm::round_mix& m) { m.weighs = m.trigger_talks = m.meets = m.tells = true; }},
    {"`every_seconds`, `one_round_late`",
     [](comm::round_mix& m) {
       m.weighs = m.trigger_talks = m.meets = m.tells = m.waits_a_round = true, m.waits_at_once = false;
     }},
};

/// The first rule that a mix breaks, else what it promises.
std::string verdict_of(const comm::round_mix& m) {
  using namespace comm::rules;
  const std::pair<const char*, bool> all[] = {{"A2", a2(m)},   {"A3", a3(m)},   {"A4", a4(m)},   {"A5", a5(m)},
                                              {"A6", a6(m)},   {"A7", a7(m)},   {"A8", a8(m)},   {"A9", a9(m)},
                                              {"A10", a10(m)}, {"A11", a11(m)}, {"A14", a14(m)}, {"A15", a15(m)},
                                              {"A16", a16(m)}, {"A17", a17(m)}, {"A18", a18(m)}};
  for (const auto& [id, holds] : all) {
    if (!holds) return id;
  }
  if (elastic(m)) return "elastic";
  return identical(m) ? "identical" : "yes";
}

std::string matrix() {
  std::ostringstream out;
  out << "# Which axes of `comm::rounds` go together\n\n"
         "Written by `tests/comm/round_rules.cpp` from the rules themselves; [what the ids mean](rules.md#a0). *elastic*: "
         "peers "
         "may come and go; *identical*: fixed peers, all hold the same (shared) parameters after each exchange; *yes*: "
         "fixed peers, "
         "which differ.\n";
  for (const named& content : contents) {
    out << "\n## " << content.name << "\n\n| |";
    for (const named& exchange : exchanges) out << ' ' << exchange.name << " |";
    out << "\n|---|---|---|---|---|---|\n";
    for (const named& other : others) {
      out << "| " << other.name << " |";
      for (const named& exchange : exchanges) {
        comm::round_mix m;
        content.set(m);
        exchange.set(m);
        other.set(m);
        out << ' ' << verdict_of(m) << " |";
      }
      out << '\n';
    }
  }
  return out.str();
}

}  // namespace

TEST_CASE("round rules: the matrix in the documentation is what the rules say", "[comm][fast]") {
  support::check_written_page(__FILE__, "docs/reference/round_matrix.md", matrix());
}

TEST_CASE("round rules: each rule refuses what it is about, and nothing else", "[comm][fast]") {
  const auto verdict = [](auto... changes) {
    comm::round_mix m;
    (changes(m), ...);
    return verdict_of(m);
  };
  using mix = comm::round_mix;
  CHECK(verdict() == "elastic");
  CHECK(verdict([](mix& m) { m.sparse = true; }) == "A2");
  CHECK(verdict([](mix& m) { m.sparse = m.shared_support = true; }) == "elastic");
  CHECK(verdict([](mix& m) { m.waits_at_once = false; }) == "A3");
  CHECK(verdict([](mix& m) { m.wants_mean_shared = true; }) == "A4");
  CHECK(verdict([](mix& m) { m.everybody = m.lasting = m.by_context = false; }) == "A5");
  CHECK(verdict([](mix& m) { m.everybody = m.by_context = false; }) == "elastic");
  CHECK(verdict([](mix& m) { m.everybody = m.by_context = m.waits_at_once = false; }) == "yes");
  CHECK(verdict([](mix& m) { m.everybody = m.by_context = m.bit_parity = false; }) == "A7");
  CHECK(verdict([](mix& m) { m.everybody = m.anchored = false; }) == "A6");
  CHECK(verdict([](mix& m) { m.bit_parity = false; }) == "A7");
  CHECK(verdict([](mix& m) { m.keeps_residual = true, m.gives_residual = false; }) == "A8");
  CHECK(verdict([](mix& m) { m.anchored = false, m.sparse = m.own_support = true; }) == "A9");
  CHECK(verdict([](mix& m) { m.anchored = m.by_context = false, m.own_is_fresh = true; }) == "A10");
  CHECK(verdict([](mix& m) { m.anchored = false, m.watches_movement = true; }) == "A11");
  CHECK(verdict([](mix& m) { m.accumulates = true; }) == "A14");
  CHECK(verdict([](mix& m) { m.weighs = true; }) == "A15");
  CHECK(verdict([](mix& m) { m.keeps_residual = m.residual_in_parameters = true, m.keeps_steps = false; }) == "A16");
  CHECK(verdict([](mix& m) { m.meets = m.before_inner_step = true, m.anchored = false; }) == "A17");
  CHECK(verdict([](mix& m) { m.meets = true, m.waits_at_once = m.by_context = false; }) == "A17");
  const auto meets_late = [](mix& m) {
    m.meets = m.tells = m.trigger_talks = m.weighs = m.waits_a_round = true, m.waits_at_once = m.by_context = false;
  };
  CHECK(verdict(meets_late) == "elastic");
  CHECK(verdict(meets_late, [](mix& m) { m.anchored = false; }) == "yes");  // as with other triggers
  CHECK(verdict(meets_late, [](mix& m) { m.before_inner_step = true, m.anchored = false; }) == "A17");
  CHECK(verdict(meets_late, [](mix& m) { m.own_is_fresh = true; }) == "A15");
  CHECK(verdict([](mix& m) { m.before_inner_step = true, m.anchored = m.by_context = m.always = false; }) == "A18");
  CHECK(verdict([](mix& m) { m.meets = m.trigger_talks = m.weighs = true, m.by_context = false; }) == "identical");
  CHECK(verdict([](mix& m) { m.waits_at_once = m.keeps_steps = m.by_context = false; }) == "elastic");
  CHECK(verdict([](mix& m) { m.weighs = true, m.by_context = false; }) == "elastic");
  CHECK(verdict([](mix& m) { m.weighs = true, m.by_context = m.everybody = m.lasting = m.anchored = false; }) == "elastic");
  CHECK(verdict([](mix& m) { m.weighs = true, m.by_context = m.everybody = m.lasting = m.anchored = m.always = false; }) ==
        "A15");
  CHECK(verdict([](mix& m) { m.weighs = m.own_is_fresh = true, m.by_context = false; }) == "A15");
}

TEST_CASE("round rules: gradients move with blocks in one row or several, if the exchange does not remember several",
          "[comm][fast]") {
  using mix = comm::round_mix;
  const auto moves = [](bool keeps_factors, auto... changes) {
    comm::round_mix m{.anchored = false, .before_inner_step = true, .by_context = false};
    (changes(m), ...);
    return comm::rules::moves_with_blocks(m, keeps_factors);
  };
  const auto several = [](mix& m) { m.single = false; };
  CHECK(moves(false));
  CHECK(moves(true));
  CHECK(moves(false, several));
  CHECK_FALSE(moves(true, several));
  CHECK(moves(false, several, [](mix& m) { m.by_context = true; }));
  const auto late = [](mix& m) { m.waits_at_once = false, m.waits_a_round = true; };
  CHECK(moves(false, late));
  CHECK_FALSE(moves(true, late));
  CHECK_FALSE(moves(false, late, several));
  CHECK_FALSE(moves(false, [](mix& m) { m.waits_at_once = false; }));
  CHECK(moves(false, [](mix& m) { m.accumulates = true; }));  // a sum that a layout's change gives up
  CHECK_FALSE(moves(false, [](mix& m) { m.weighs = m.trigger_talks = m.tells = true; }));
}

TEST_CASE(
    "round rules: local steps move with blocks, in one row or several, if what is kept has a value for each parameter",
    "[comm][fast]") {
  using mix = comm::round_mix;
  const auto moves = [](bool keeps_factors, auto... changes) {
    comm::round_mix m;
    (changes(m), ...);
    return comm::rules::moves_with_blocks(m, keeps_factors);
  };
  const auto several = [](mix& m) { m.single = false; };
  const auto parameters = [](mix& m) { m.anchored = false; };
  const auto delayed = [](mix& m) { m.waits_at_once = m.by_context = false; };
  CHECK(moves(false));
  CHECK(moves(false, several));
  CHECK(moves(false, several, parameters));
  CHECK(moves(false, several, delayed));
  CHECK_FALSE(moves(true));
  CHECK_FALSE(moves(true, several));
  CHECK(moves(false, delayed, [](mix& m) { m.keeps_residual = m.residual_in_parameters = true; }));
  const auto by_speed = [](mix& m) { m.weighs = m.trigger_talks = m.tells = true, m.by_context = false; };
  CHECK(moves(false, by_speed));
  CHECK(moves(false, by_speed, delayed));
  CHECK(moves(false, by_speed, delayed, [](mix& m) { m.waits_a_round = true; }));
  const auto by_clock = [](mix& m) { m.meets = true; };
  CHECK(moves(false, by_speed, by_clock));
  CHECK_FALSE(moves(false, by_speed, by_clock, [](mix& m) { m.waits_a_round = true, m.waits_at_once = false; }));
}

TEST_CASE("round rules: peers may come and go where all hold something alike after each turn", "[comm][fast]") {
  using mix = comm::round_mix;
  const auto elastic = [](auto... changes) {
    comm::round_mix m{.by_context = false};
    (changes(m), ...);
    return comm::rules::elastic(m);
  };
  const auto delayed = [](mix& m) { m.waits_at_once = false; };
  const auto late = [](mix& m) { m.waits_at_once = false, m.waits_a_round = true; };
  const auto eager = [](mix& m) { m.waits_at_once = false, m.waits_a_round = m.own_is_fresh = true; };
  const auto fragments = [](mix& m) { m.single = false; };
  const auto kept_back = [](mix& m) { m.keeps_residual = m.residual_in_parameters = true; };
  CHECK(elastic());
  CHECK(elastic(fragments));
  CHECK(elastic(fragments, delayed));
  CHECK(elastic(late));
  CHECK(elastic(eager));
  CHECK(elastic([](mix& m) { m.anchored = false, m.before_inner_step = true; }));
  CHECK(elastic([](mix& m) { m.anchored = false; }));
  CHECK(elastic([](mix& m) { m.always = false; }));
  CHECK(elastic([](mix& m) { m.watches_movement = true; }));
  // A row that is made a round before it is applied is that of one fragment.
  CHECK_FALSE(elastic(late, fragments));
  // What this peer applied early can be taken back exactly only where the outer step is linear.
  CHECK_FALSE(elastic(eager, [](mix& m) { m.linear_outer = false; }));
  CHECK(elastic(delayed, kept_back));
  // In groups everybody has parameters of its own; in lasting ones they are those of other models.
  const auto groups = [](mix& m) { m.everybody = m.lasting = false, m.sends_anchor = m.wants_mean_shared = true; };
  CHECK(elastic(groups));
  CHECK(elastic(groups, delayed));
  CHECK(elastic([](mix& m) { m.everybody = m.lasting = m.anchored = false; }));
  CHECK_FALSE(elastic(groups, [](mix& m) { m.lasting = true; }));
  CHECK(elastic([](mix& m) { m.everybody = false; }));
  CHECK_FALSE(elastic([](mix& m) { m.everybody = false, m.keeps_residual = true; }));
  CHECK_FALSE(elastic([](mix& m) { m.everybody = m.anchored = false; }));
  CHECK_FALSE(elastic(groups, [](mix& m) { m.sparse = m.shared_support = true; }));  // a newcomer would be given a part
  CHECK_FALSE(elastic(groups, [](mix& m) { m.always = false; }));                    // or nothing
  CHECK_FALSE(elastic([](mix& m) { m.bit_parity = false; }));
  CHECK_FALSE(elastic([](mix& m) { m.trigger_talks = true; }));
  CHECK(elastic([](mix& m) { m.trigger_talks = m.tells = true; }));  // in the exchange itself, as one part of it
  CHECK_FALSE(elastic([](mix& m) { m.always = false, m.keeps_local = true; }));
}

TEST_CASE("round rules: what was not sent stays in the live parameters wherever local steps are taken", "[comm][fast]") {
  for (const bool at_once : {true, false}) {
    const comm::round_mix m{
        .by_context = false, .keeps_residual = true, .residual_in_parameters = true, .waits_at_once = at_once};
    CHECK(comm::rules::allows_late_steps(m));
    CHECK(comm::rules::moves_with_blocks(m, false));
    CHECK(comm::rules::takes_turns(m));
  }
}
