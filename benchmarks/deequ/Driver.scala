import java.nio.file.{Files, Path, Paths}
import java.time.LocalDate
import java.util.concurrent.Executors

import scala.collection.concurrent.TrieMap
import scala.concurrent.duration.Duration
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.io.StdIn
import scala.util.{Failure, Success, Try}

import com.amazon.deequ.VerificationSuite
import com.amazon.deequ.analyzers._
import com.amazon.deequ.analyzers.runners.{AnalysisRunner, AnalyzerContext}
import com.amazon.deequ.checks.{Check, CheckLevel}
import com.amazon.deequ.constraints.ConstraintStatus
import com.amazon.deequ.metrics._
import com.amazon.deequ.repository.{MetricsRepository, ResultKey}
import com.amazon.deequ.repository.fs.FileSystemMetricsRepository
import com.amazon.deequ.repository.memory.InMemoryMetricsRepository
import org.apache.commons.io.FileUtils
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.StructType
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

/** Deequ's side of the benchmark: one JSON request a line in, one marked JSON answer a line out.
  *
  * A case is prepared once; each round gets ready by `before`, and only `run` is timed.
  */
object Driver {
  type AnyAnalyzer = Analyzer[_, Metric[_]]

  lazy val spark: SparkSession = SparkSession.builder.appName("deequ").getOrCreate()

  trait Job {
    def before(round: JValue): Unit = ()
    def run(): Unit
    def values: JValue
  }

  def main(arguments: Array[String]): Unit = {
    // Answers go here; what libraries print goes to the log.
    val out = System.out
    System.setOut(System.err)
    var job: Job = null
    for (line <- Iterator.continually(StdIn.readLine()).takeWhile(_ != null)) {
      val request = parse(line)
      val answer = Try {
        text(request \ "stage") match {
          case "hello" => JObject("spark" -> JString(spark.version))
          case "prepare" =>
            job = jobOf(request)
            JObject()
          case "before" =>
            job.before(request)
            System.gc()
            JObject()
          case "run" =>
            val started = System.nanoTime()
            job.run()
            JObject("seconds" -> JDouble((System.nanoTime() - started) / 1e9))
          case "values" => JObject("values" -> job.values)
        }
      } match {
        case Success(found) => found
        case Failure(error) =>
          error.printStackTrace()
          JObject("error" -> JString(error.toString))
      }
      out.println("@@" + compact(render(answer)))
      out.flush()
    }
    spark.stop()
  }

  def jobOf(request: JValue): Job = text(request \ "case" \ "op") match {
    case "calculate" => new Calculate(request)
    case "analyze" => new Analyze(request)
    case "merge" => new Merge(request)
    case "append" => new Append(request)
    case "read" => new Read(request)
    case "verify" => new Verify(request)
  }

  /** Which constraints hold; they are those of benchmarks/checks. */
  class Verify(request: JValue) extends Job {
    private val check = (request \ "case" \ "constraints")
      .asInstanceOf[JArray]
      .arr
      .foldLeft(Check(CheckLevel.Error, "benchmark"))(constrained)
    private var holds = Seq.empty[Boolean]

    def run(): Unit = {
      val data = spark.read.parquet(text(request \ "path"))
      val found = VerificationSuite().onData(data).addCheck(check).run()
      holds = found.checkResults(check).constraintResults.map(_.status == ConstraintStatus.Success)
    }

    def values: JValue = JArray(holds.map(JBool(_)).toList)

    private def constrained(check: Check, told: JValue): Check = {
      val JArray(JString(kind) :: JString(column) :: of) = told
      def number(place: Int): Double = of(place) match {
        case JInt(value) => value.toDouble
        case value => value.asInstanceOf[JDouble].num
      }
      val first = if (of.head.isInstanceOf[JArray] || of.head.isInstanceOf[JString]) 0.0 else number(0)
      kind match {
        case "complete" => check.hasCompleteness(column, _ >= first)
        case "range" =>
          val within = s"$column IS NULL OR ($column >= $first AND $column <= ${number(1)})"
          check.satisfies(within, s"$column within bounds", _ >= number(2))
        case "set" =>
          val JArray(values) = of.head
          check.isContainedIn(column, values.map(text).toArray, _ >= number(1))
        case "pattern" => check.hasPattern(column, text(of.head).r, _ >= number(1))
        case "min" => check.hasMin(column, _ >= first)
        case "max" => check.hasMax(column, _ <= first)
        case "mean" => check.hasMean(column, value => value >= first && value <= number(1))
        case "min_length" => check.hasMinLength(column, _ >= first)
        case "max_length" => check.hasMaxLength(column, _ <= first)
        case "distinct" => check.hasNumberOfDistinctValues(column, _ <= first)
      }
    }
  }

  class Calculate(request: JValue) extends Job {
    private val analyzers = analyzersOf(request)
    private var context = AnalyzerContext.empty

    def run(): Unit = {
      val data = spark.read.parquet(text(request \ "path"))
      context = AnalysisRunner.onData(data).addAnalyzers(analyzers).run()
    }

    def values: JValue = numbers(analyzers, context.metricMap)
  }

  /** Partitions, each measured by a run of its own; its states and metrics are kept. */
  class Partitions(
      analyzers: Seq[AnyAnalyzer], schema: StructType, folder: String, memory: Boolean) {
    val found = TrieMap.empty[String, Map[AnyAnalyzer, Metric[_]]]
    private val repository =
      if (memory) new InMemoryMetricsRepository
      else FileSystemMetricsRepository(spark, s"$folder/metrics.json")
    private val kept = TrieMap.empty[String, InMemoryStateProvider]

    def measure(partition: Partition): Unit = {
      // The schema is given because Spark would read it from a file by a job for each partition.
      val data = spark.read.schema(schema).parquet(partition.path)
      val states =
        if (memory) kept.getOrElseUpdate(partition.ds, InMemoryStateProvider())
        else statesOf(folder, partition)
      found(partition.ds) = VerificationSuite()
        .onData(data)
        .addRequiredAnalyzers(analyzers)
        .saveStatesWith(states)
        .useRepository(repository)
        .saveOrAppendResult(keyOf(LocalDate.parse(partition.ds)))
        .run()
        .metrics
    }
  }

  class Analyze(request: JValue) extends Job {
    private val analyzers = analyzersOf(request)
    private val memory = request \ "case" \ "memory" == JBool(true)
    private val history = partitionsOf(request \ "history")
    private val schema = schemaOf(request)
    private val kept = if (history.isEmpty) None else Some(historyOf(request, analyzers, history))
    private var measured: Partitions = _
    private var chosen = Seq.empty[Partition]

    override def before(round: JValue): Unit = {
      chosen = partitionsOf(round \ "partitions")
      if (kept.isEmpty) open(text(round \ "folder"))
    }

    def run(): Unit = {
      // Who measures a new day is a new job, which opens the repository.
      kept.foreach(open)
      if (!memory) chosen.foreach(measured.measure)
      else {
        // With nothing to write in turn, a partition can be measured by each core.
        val pool = Executors.newFixedThreadPool(2)
        implicit val context: ExecutionContext = ExecutionContext.fromExecutor(pool)
        try Await.result(Future.traverse(chosen)(p => Future(measured.measure(p))), Duration.Inf)
        finally pool.shutdown()
      }
    }

    private def open(folder: String): Unit =
      measured = new Partitions(analyzers, schema, folder, memory)

    def values: JValue = JObject(measured.found.toList.map { case (ds, metrics) =>
      ds -> numbers(analyzers, metrics)
    })
  }

  class Merge(request: JValue) extends Job {
    private val analyzers = analyzersOf(request)
    private val history = partitionsOf(request \ "history")
    private val folder = historyOf(request, analyzers, history)
    private val schema = schemaOf(request)
    private var context = AnalyzerContext.empty
    private val loaders: Seq[StateLoader] = history.map { partition =>
      val stored = statesOf(folder, partition)
      if (request \ "case" \ "memory" == JBool(true)) {
        val held = InMemoryStateProvider()
        // Which kind of state it is matters to neither provider.
        for (one <- analyzers)
          copyState(one.asInstanceOf[Analyzer[NumMatches, Metric[_]]], stored, held)
        held
      } else stored
    }

    def run(): Unit =
      context = AnalysisRunner.runOnAggregatedStates(schema, Analysis(analyzers), loaders)

    def values: JValue = numbers(analyzers, context.metricMap)
  }

  /** A file of many results of as many metrics; the first is written by Deequ, the rest copy it. */
  class Results(request: JValue) {
    val analyzers: Seq[AnyAnalyzer] = analyzersOf(request)
    private val folder = Paths.get(text(request \ "folder"))
    private val file = folder.resolve("metrics.json")
    var count: Int = (request \ "case" \ "results").asInstanceOf[JInt].num.toInt

    save(open(), 0)
    private val first = parse(Files.readString(file)).asInstanceOf[JArray].arr.head
    private val all = (0 until count).map { number =>
      val date = JLong(keyOf(dayOf(number)).dataSetDate)
      first.transformField { case ("dataSetDate", _) => "dataSetDate" -> date }
    }
    Files.writeString(file, compact(render(JArray(all.toList))))
    Files.deleteIfExists(folder.resolve(".metrics.json.crc")) // which is of the file before

    private lazy val held = open()

    /** The repository: a new one parses the whole file; one that is held knows what was in it. */
    def repository: MetricsRepository =
      if (request \ "case" \ "held" == JBool(true)) held else open()

    private def open(): MetricsRepository = FileSystemMetricsRepository(spark, file.toString)

    def save(repository: MetricsRepository, number: Int): Unit = {
      val metrics = analyzers.zipWithIndex.map { case (analyzer: Completeness, index) =>
        val value = Success(index / analyzers.size.toDouble)
        analyzer -> DoubleMetric(Entity.Column, "Completeness", analyzer.column, value)
      }
      repository.save(keyOf(dayOf(number)), AnalyzerContext(metrics.toMap))
    }

    private def dayOf(number: Int) = LocalDate.of(2020, 1, 1).plusDays(number)
  }

  class Append(request: JValue) extends Job {
    private val results = new Results(request)

    def run(): Unit = {
      results.save(results.repository, results.count)
      results.count += 1
    }

    def values: JValue = JObject("results" -> JInt(results.repository.load().get().size))
  }

  class Read(request: JValue) extends Job {
    private val results = new Results(request)
    private var series = Seq.empty[(Long, Double)]

    def run(): Unit = {
      val analyzer = results.analyzers(results.analyzers.size / 2).asInstanceOf[Completeness]
      val found = results.repository.load().forAnalyzers(Seq(analyzer)).get()
      series = found.map { result =>
        val metric = result.analyzerContext.metric(analyzer).get.asInstanceOf[DoubleMetric]
        result.resultKey.dataSetDate -> metric.value.get
      }
    }

    def values: JValue = JObject(
      "results" -> JInt(series.size),
      "last" -> JLong(series.map(_._1).max),
      "sum" -> JDouble(series.map(_._2).sum)
    )
  }

  def keyOf(day: LocalDate): ResultKey =
    ResultKey(day.toEpochDay * 86400000L, Map("dataset" -> "days"))

  case class Partition(ds: String, path: String)

  def partitionsOf(value: JValue): Seq[Partition] = value match {
    case JArray(all) =>
      all.map { case JArray(List(JString(ds), JString(path))) => Partition(ds, path) }
    case _ => Nil
  }

  def schemaOf(request: JValue): StructType = spark.read.parquet(text(request \ "schema")).schema

  def statesOf(folder: String, partition: Partition): HdfsStateProvider =
    HdfsStateProvider(spark, s"$folder/states/${partition.ds}/", allowOverwrite = true)

  /** Measure a history and return its folder; it is made once, and all but the newest is copied. */
  def historyOf(request: JValue, analyzers: Seq[AnyAnalyzer], history: Seq[Partition]): String = {
    val (kept, folder) = (Paths.get(text(request \ "kept")), Paths.get(text(request \ "folder")))
    def measure(where: Path, some: Seq[Partition]): Unit = {
      val measured = new Partitions(analyzers, schemaOf(request), where.toString, memory = false)
      some.foreach(measured.measure)
    }
    val older = history.take(364) // what daily runs come after; merges take one more
    if (!Files.exists(kept)) {
      val partial = Files.createTempDirectory(kept.getParent, "history")
      measure(partial, older)
      Files.move(partial, kept)
    }
    FileUtils.copyDirectory(kept.toFile, folder.toFile)
    measure(folder, history.drop(older.size))
    folder.toString
  }

  def copyState[S <: State[_]](
      analyzer: Analyzer[S, _], from: StateLoader, to: StatePersister): Unit =
    from.load[S](analyzer).foreach(to.persist[S](analyzer, _))

  def text(value: JValue): String = value.asInstanceOf[JString].s

  def analyzersOf(request: JValue): Seq[AnyAnalyzer] =
    (request \ "case" \ "analyzers").asInstanceOf[JArray].arr.map(analyzerOf)

  private def analyzerOf(told: JValue): AnyAnalyzer = told match {
    case JArray(JString(name) :: arguments) =>
      val columns = arguments.flatMap {
        case JArray(several) => several.map(text)
        case one => List(text(one))
      }
      val found: Any = name match {
        case "Size" => Size()
        case "Completeness" => Completeness(columns.head)
        case "Mean" => Mean(columns.head)
        case "StandardDeviation" => StandardDeviation(columns.head)
        case "Sum" => Sum(columns.head)
        case "Minimum" => Minimum(columns.head)
        case "Maximum" => Maximum(columns.head)
        case "MinLength" => MinLength(columns.head)
        case "MaxLength" => MaxLength(columns.head)
        case "DataType" => DataType(columns.head)
        case "ApproxCountDistinct" => ApproxCountDistinct(columns.head)
        case "Compliance" => Compliance(columns.head, columns(1))
        case "PatternMatch" => PatternMatch(columns.head, columns(1).r)
        case "Correlation" => Correlation(columns.head, columns(1))
        case "Uniqueness" => Uniqueness(columns)
        case "Distinctness" => Distinctness(columns)
        case "Entropy" => Entropy(columns.head)
        case "Histogram" => Histogram(columns.head)
        case "KLLSketch" => KLLSketch(columns.head)
      }
      found.asInstanceOf[AnyAnalyzer]
  }

  /** The numbers of each analyzer's metric by name, in the order of the analyzers. */
  def numbers(analyzers: Seq[AnyAnalyzer], metrics: Map[AnyAnalyzer, Metric[_]]): JValue =
    JArray(analyzers.map(analyzer => JObject(parts(metrics(analyzer)))).toList)

  private def parts(metric: Metric[_]): List[JField] = metric.value match {
    case Failure(error) => List("error" -> JString(error.toString))
    case Success(value: Double) => List("" -> JDouble(value))
    case Success(found: Distribution) =>
      ("bins" -> JLong(found.numberOfBins)) :: found.values.toList.flatMap { case (key, value) =>
        List(s"abs.$key" -> JLong(value.absolute), s"ratio.$key" -> JDouble(value.ratio))
      }
    case Success(found: BucketDistribution) =>
      for ((bucket, index) <- found.buckets.zipWithIndex)
        yield s"count.$index" -> JLong(bucket.count)
  }
}
