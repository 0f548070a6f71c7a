# Rscript r/tests/run.R: the vignette's chunks as they stand, then R's numbers against Python's, then what goes wrong.
library(fedci)

vignette <- Sys.getenv("FEDCI_VIGNETTE", file.path("..", "vignettes", "first-study.Rmd"))
if (!nzchar(Sys.which(Sys.getenv("FEDCI", "fedci")))) {
  cat("the program fedci is not installed: nothing is tested\n")
  quit(status = 0)
}
vignette <- normalizePath(vignette)
folder <- tempfile("fedci-")
dir.create(folder)
setwd(folder)

chunks <- function(path) {
  lines <- readLines(path)
  begin <- grep("^```\\{r", lines)
  end <- grep("^```$", lines)
  vapply(begin, function(b) paste(lines[(b + 1):(min(end[end > b]) - 1)], collapse = "\n"), "")
}
said <- capture.output(for (chunk in chunks(vignette)) for (part in parse(text = chunk)) {
  value <- withVisible(eval(part, globalenv()))
  if (value$visible) print(value$value)
})
stopifnot(any(grepl("average effect", said)), file.size("forest.pdf") > 1000)

# --- the same numbers as Python's, to the last bit that JSON and CSV carry
python <- Sys.getenv("FEDCI_PYTHON", file.path(dirname(Sys.which(Sys.getenv("FEDCI", "fedci"))), "python"))
asked <- paste("import json; from fedci import Result; import pandas as pd; r = Result.load('result')",
               "e = r.effect_posterior(pd.read_csv('hospitals/new-patients.csv'))",
               "low, high = e.interval(0.05)",
               "print(json.dumps({'table': r.table().to_dict('list'), 'ninety': r.ate().interval(0.1),",
               "'effect': e.mean.tolist(), 'low': low.tolist()}))", sep = "\n")
writeLines(asked, "ask.py")
theirs <- jsonlite::fromJSON(system2(python, "ask.py", stdout = TRUE))
for (column in c("mean", "sd", "low", "high")) stopifnot(identical(result$effects[[column]], theirs$table[[column]]))
stopifnot(identical(result$effects$site, theirs$table$site),
          identical(unname(confint(result, level = 0.9)["ATE all", ]), theirs$ninety),
          identical(unname(ate(result)["mean"]), theirs$table$mean[1]))
# the program writes new people's effects with ten digits
stopifnot(max(abs(effects$effect / theirs$effect - 1)) < 1e-9, max(abs(effects$low - theirs$low)) < 1e-8)
stopifnot(identical(predict(result, "hospitals/new-patients.csv"), effects))

# --- what goes wrong is said in the program's words
message_of <- function(call) tryCatch({ call; "" }, error = conditionMessage)
stopifnot(grepl("holds no result", message_of(read_result("hospitals"))),
          grepl("sites needs names", message_of(run_study("study.toml", "a.csv"))),
          grepl("no 'ATE' of site 'rome'", message_of(ate(result, "rome"))),
          grepl("bmi|column", message_of(predict(result, new[1]))),
          grepl("is not found", message_of({
            options(fedci.command = "no-such-program")
            fedci("show", "result")
          })))
options(fedci.command = NULL)

# --- of more than two arms a contrast is asked for, and no other is taken for it
set.seed(1)
for (site in c("a", "b", "c")) {
  age <- round(rnorm(60, 60, 10), 1)
  rx <- rep(c("none", "low", "high"), 20)
  write.csv(data.frame(age, rx, score = round(0.1 * age + c(none = 0, low = 1, high = 2)[rx] + rnorm(60), 3)),
            paste0(site, ".csv"), row.names = FALSE)
}
cat('treatment = { name = "rx", arms = ["none", "low", "high"] }', 'outcome = "score"', 'policy = "simulation"',
    'covariates = ["age"]', "[model]", "knots = 3", "landmarks = 0", "[optimiser]", "rounds = 8", "draws = 4", "[prediction]",
    "draws = 32", sep = "\n", file = "arms.toml")
arms <- run_study("arms.toml", c(a = "a.csv", b = "b.csv", c = "c.csv"), out = "arms")
whole <- arms$effects[arms$effects$site == "all" & arms$effects$estimand == "ATE", ]
high <- ate(arms, arm = "high", against = "none")
stopifnot(nrow(whole) == 3, length(high) == 4,
          identical(unname(high["mean"]), whole$mean[whole$arm == "high" & whole$against == "none"]),
          identical(ate(arms), ate(arms, arm = "low", against = "none")),
          identical(unname(confint(arms)["ATE all, high against none", ]), unname(high[c("low", "high")])),
          anyDuplicated(rownames(confint(arms))) == 0,
          sum(grepl("average effect", capture.output(print(arms)))) == 3,
          nrow(predict(arms, "a.csv")) == 60, grepl("there is no contrast", message_of(ate(arms, arm = "none"))),
          grepl("two arms", message_of(ate(result, arm = "high"))))
pdf(NULL)
stopifnot(identical(plot(arms, arm = "high")$mean[4], unname(high["mean"])))
invisible(dev.off())
cat("R's numbers are Python's:", nrow(result$effects), "averages,", nrow(effects), "people\n")
